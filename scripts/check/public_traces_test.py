#!/usr/bin/env python3
"""Fetching of public_traces.py, from a server of this machine."""

import hashlib
import http.server
import os
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import public_traces  # noqa: E402

os.environ["no_proxy"] = "127.0.0.1"

BODY = b"a trace" * 1000
BLOB = hashlib.sha1(b"blob %d\0" % len(BODY) + BODY).hexdigest()


class Server(http.server.BaseHTTPRequestHandler):
    answers = []  # one for each request to come
    asked = 0

    def do_GET(self):
        Server.asked += 1
        how = Server.answers.pop(0)
        if how == "garbage":
            self.wfile.write(b"no HTTP at all\r\n\r\n")
        elif how == "busy":
            self.send_error(503)
        elif how == "broken":  # a chunk that breaks off is http.client's IncompleteRead
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nabc")
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write({"whole": BODY, "short": BODY[:100], "changed": BODY[:-1] + b"!"}[how])

    def log_message(self, *_):
        pass


class TestFetch(unittest.TestCase):
    def setUp(self):
        server = http.server.HTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.into = folder.name
        public_traces.RAW, public_traces.PAUSE_S = "http://127.0.0.1:%d" % server.server_port, 0

    def fetch(self, *answers):
        Server.answers, Server.asked = list(answers), 0
        return public_traces.fetch("owner/name", "c0ffee", "a folder/t.json.gz", BLOB, self.into)

    def whole(self, got):
        path, why = got
        self.assertEqual(why, "")
        with open(path, "rb") as f:
            self.assertEqual(f.read(), BODY)

    def test_each_failure_is_tried_again(self):
        for how in ("short", "changed", "garbage", "broken", "busy"):
            with self.subTest(how):
                self.whole(self.fetch(how, "whole"))
                self.assertEqual(Server.asked, 2)
                os.remove(os.path.join(self.into, "owner+name", "a folder", "t.json.gz"))

    def test_the_last_failure_is_named(self):
        for how, says in (("short", "100 of 7000 bytes came"), ("changed", "its 7000 bytes are not blob " + BLOB), ("garbage", "BadStatusLine"), ("broken", "IncompleteRead"), ("busy", "503")):
            with self.subTest(how):
                path, why = self.fetch("busy", "garbage", how)
                self.assertEqual((path, Server.asked), ("", public_traces.ATTEMPTS))
                self.assertIn("/owner/name/c0ffee/a%20folder/t.json.gz failed 3 times: ", why)
                self.assertIn(says, why)

    def test_the_cache(self):
        self.whole(self.fetch("whole"))
        self.whole(self.fetch())  # nothing is asked for
        with open(os.path.join(self.into, "owner+name", "a folder", "t.json.gz"), "wb") as f:
            f.write(BODY[:5])  # as an earlier run may have left it
        self.whole(self.fetch("whole"))
        self.assertEqual(Server.asked, 1)


if __name__ == "__main__":
    unittest.main()
