"""The Python of the page on mathematics runs as it stands, and shows what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "mathematics.md"


@pytest.mark.statistical
def test_schedules_and_steps_do_what_the_page_says() -> None:
    """Fixed seeds.  The promised ESS is met within 0.1, many σ."""
    found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(found) == 3
    names: dict[str, Any] = {}
    for block in found:
        exec(compile(block, str(PAGE), "exec"), names)  # one after the other, as read
    assert names["draws"].ess == pytest.approx(names["plan"].ess, abs=0.1)
    assert names["draws"].num_network_calls == 3_000
    assert names["second"].ess > names["plain"].ess
