"""Loads in the main process, or in workers that are forked or spawned."""

import multiprocessing

from ... import _events

_worker_info = None


def get_worker_info():
    return _worker_info


class Dataset:
    pass


def work(dataset, batch_size, tasks, results):
    global _worker_info
    _worker_info = "worker"
    for start in iter(tasks.get, None):
        results.put([dataset[i] for i in range(start, start + batch_size)])


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._dataset = loader.dataset
        self.loader = loader
        self.starts = iter(range(0, len(loader.dataset), loader.batch_size))

    def __iter__(self):
        return self

    def __next__(self):
        with _events.span("enumerate(DataLoader)#%s.__next__" % type(self).__name__, "user_annotation"):
            return self.next_data()


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def next_data(self):
        start = next(self.starts)
        return [self._dataset[i] for i in range(start, start + self.loader.batch_size)]


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        context = multiprocessing.get_context(loader.context)
        self.tasks, self.results = context.Queue(), context.Queue()
        args = (loader.dataset, loader.batch_size, self.tasks, self.results)
        self.workers = [context.Process(target=work, args=args, daemon=True) for _ in range(loader.num_workers)]
        for w in self.workers:
            w.start()

    def next_data(self):
        try:
            self.tasks.put(next(self.starts))
        except StopIteration:
            for _ in self.workers:
                self.tasks.put(None)
            for w in self.workers:
                w.join()
            raise
        return self.results.get()


class DataLoader:
    def __init__(self, dataset, batch_size=1, num_workers=0, multiprocessing_context="fork"):
        self.dataset, self.batch_size = dataset, batch_size
        self.num_workers, self.context = num_workers, multiprocessing_context

    def __iter__(self):
        return (_MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter)(self)
