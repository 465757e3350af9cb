from .dataloader import DataLoader, Dataset, get_worker_info  # noqa: F401
