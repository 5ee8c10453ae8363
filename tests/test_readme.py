"""The README's Python runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_readme_code_runs(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)  # one after the other, as read
    printed = capsys.readouterr().out
    assert "93.6122" in printed
    assert "exact by transfer matrix" in printed
    assert "exact by enumeration" in printed
