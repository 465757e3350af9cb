"""Sums over the ranks of a job: rank 0 adds what the others send. As with gloo, threads of their own wait for the others."""

import os
import queue
import socket
import struct
import threading
import time

from .. import _events

CHANNELS = 2  # all-reduces that can run at the same time, as gloo's threads
_LIMIT_S = 60
_group = None


class _Group:
    def __init__(self, rank, world):
        self.rank, self.world, self.turn = rank, world, 0
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        self.peers = [{} for _ in range(CHANNELS)]  # connections by channel and rank
        if rank == 0:
            with socket.create_server(address) as server:
                server.settimeout(_LIMIT_S)
                for _ in range((world - 1) * CHANNELS):
                    peer = server.accept()[0]
                    other, channel = struct.unpack("<ii", self.take(peer, 8))
                    self.peers[channel][other] = peer
        else:
            for channel in range(CHANNELS):
                self.peers[channel][0] = self.connect(address)
                self.peers[channel][0].sendall(struct.pack("<ii", rank, channel))
        self.asked = [queue.Queue() for _ in range(CHANNELS)]
        for channel in range(CHANNELS):
            threading.Thread(target=self.work, args=(channel,), daemon=True).start()

    @staticmethod
    def connect(address):
        """Rank 0 may not be there yet."""
        until = time.monotonic() + _LIMIT_S
        while True:
            try:
                return socket.create_connection(address)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    @staticmethod
    def take(peer, size):
        data = b""
        while len(data) < size:
            more = peer.recv(size - len(data))
            if not more:
                raise ConnectionError("a rank of the job has ended")
            data += more
        return data

    def work(self, channel):
        while True:
            values, done = self.asked[channel].get()
            with _events.span("gloo:all_reduce", "user_annotation"):
                self.sum(self.peers[channel], values)
            done.set()

    def sum(self, peers, values):
        form = "<%dd" % len(values)
        if self.rank == 0:
            for peer in peers.values():
                for i, v in enumerate(struct.unpack(form, self.take(peer, 8 * len(values)))):
                    values[i] += v
            for peer in peers.values():
                peer.sendall(struct.pack(form, *values))
            return
        peers[0].sendall(struct.pack(form, *values))
        values[:] = struct.unpack(form, self.take(peers[0], 8 * len(values)))

    def all_reduce(self, values):
        """Returns at once; the event is set when values hold the sums."""
        done = threading.Event()
        with _events.span("c10d::allreduce_", "cpu_op"):
            self.asked[self.turn % CHANNELS].put((values, done))
            self.turn += 1
        return done


def init_process_group(_backend, rank, world_size):
    global _group
    _group = _Group(rank, world_size)


def destroy_process_group():
    global _group
    _group = None
