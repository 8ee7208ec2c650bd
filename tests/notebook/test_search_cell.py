"""A search in a real kernel: it shows its reach, asks, and reports progress and result in its cell."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_kernel import Kernel

SETUP = f"""
%load_ext agentnb
import sys
sys.path[:0] = [{str(Path(__file__).parents[1] / "support")!r}]
from small_searches import small_search
search = small_search(24)
"""


@pytest.mark.slow("a kernel, and a search of a hundred runs in it")
def test_search_asks_the_person_before_it_starts(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    try:
        assert kernel.run(SETUP).status == "ok"
        for reply in ("", "y"):
            cell = kernel.run("found = await search.run()", attended=True, reply=reply)
            assert cell.asked == f"{kernel.value('search.design()')}\nStart? [y/N] "
            assert cell.status == ("ok" if reply else "error")
        tables = [
            output["data"]["text/plain"] for output in cell.outputs if output["type"] in ("display_data", "update_display_data")
        ]
        assert any("ended" in table for table in tables), tables
        assert kernel.value("found.trials[2].accepted") == "True"
        assert kernel.run("await search.run()").error.count("cannot ask for confirmation") == 1
    finally:
        kernel.close()
