"""Progress, seeds, devices, and processes that share work."""

from hardneg.runtime.devices import *
from hardneg.runtime.distributed import *
from hardneg.runtime.progress import *
from hardneg.runtime.seeding import *
