from . import profiler  # noqa: F401
from .profiler import _profiler_enabled  # noqa: F401
