"""Makes the pictures of docs/report.md, from two finished run folders and Debian's chromium.

hardneg recipe run star-passage --output runs/star-passage
hardneg recipe run star-static --set "seeds=[1, 2, 3, 4, 5]" --output runs/static
python docs/report_screens.py runs/star-passage runs/static
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).parent / "images"
WIDTH, HEIGHT = 1100, 1060
SWITCHES = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
SWITCHES += ("--disable-component-update", "--disable-sync", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}")


def picture(page: Path, target: Path) -> None:
    """The first screen of a page on a light screen, in few colours, so that the file is small."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "page.png"
        switches = (*SWITCHES, f"--user-data-dir={folder}/user", f"--screenshot={shot}")
        subprocess.run(["chromium", *switches, page.resolve().as_uri()], check=True, capture_output=True, timeout=120)
        Image.open(shot).convert("RGB").quantize(64).save(target, optimize=True)
    print(f"{target}: {target.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for folder, name in zip(sys.argv[1:], ("report.png", "report-seeds.png"), strict=True):
        picture(Path(folder) / "report.html", IMAGES / name)
