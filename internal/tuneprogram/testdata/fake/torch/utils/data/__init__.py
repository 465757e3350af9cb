class IterableDataset:
    pass


class DataLoader:
    def __init__(self, dataset, batch_size=1, shuffle=None, num_workers=0, prefetch_factor=None, persistent_workers=False, pin_memory=False):
        if num_workers == 0 and (prefetch_factor or persistent_workers):
            raise ValueError("option needs workers")
        if num_workers and getattr(dataset, "cannot_be_sent", False):
            raise TypeError("cannot pickle 'generator' object")
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
        self.persistent_workers, self.prefetch_factor = persistent_workers, prefetch_factor

    def __iter__(self):
        for i in range(0, len(self.dataset), self.batch_size):
            yield [self.dataset[j] for j in range(i, min(i + self.batch_size, len(self.dataset)))]
