"""Takes the screens of docs/browse.md: `python docs/browse_screens.py runs/scifact` once browse_screens.yaml is made.

It needs Debian's chromium and chromium-driver, selenium and pillow.
"""

import io
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

import hardneg as hn

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --window-size=1100,860"
)
SCREENS = {
    "query": ("light", "/query?q=12&list=bm25-denoised", ""),
    "suspicious": ("light", "/suspicious?list=minilm-topk", ""),
    "left-out": ("dark", "/query?q=12&list=bm25-denoised", "main > h2:last-of-type"),
}
"""Name of the file: colours, address, and what to scroll to."""
FOLDER = Path(__file__).parent / "screens"


def main() -> None:
    """Writes a PNG of 64 colours for each screen."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    with TemporaryDirectory() as profile, hn.browse(sys.argv[1], marks=Path(profile) / "marks.qrels") as page:
        for flag in [*FLAGS.split(), f"--user-data-dir={profile}/chromium"]:
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            driver.get(page.address)
            through = WebDriverWait(driver, 600)
            through.until(lambda found: driver.refresh() or "queries were examined" in found.page_source)
            for name, (scheme, path, place) in SCREENS.items():
                features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
                driver.get(page.address.partition("/?")[0] + path)
                if place:
                    driver.execute_script("document.querySelector(arguments[0]).scrollIntoView()", place)
                image = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
                image.quantize(64).save(FOLDER / f"browse-{name}.png", optimize=True)
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
