"""What the tests of reranker training share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
