"""What every process has: progress, seeds, memory, processes that share the work, model servers."""

from hardneg.runtime.devices import *
from hardneg.runtime.distributed import *
from hardneg.runtime.progress import *
from hardneg.runtime.seeding import *
