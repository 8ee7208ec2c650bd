"""Write the logs of Inspect in `files`: one evaluation in each form of its writer.

usage: python inspect_logs.py FOLDER     with inspect_ai installed
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tiktoken


class _Words:
    """Count words as tokens: tiktoken's counter needs a download."""

    def encode(self, text: str, **options: Any) -> list[str]:
        return text.split()

    encode_ordinary = encode


tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: _Words()

import inspect_ai._util.zipfile as packing  # noqa: E402
from inspect_ai import Task, eval  # noqa: A004, E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import read_eval_log, write_eval_log  # noqa: E402
from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.scorer import includes  # noqa: E402
from inspect_ai.solver import generate, use_tools  # noqa: E402
from inspect_ai.tool import Tool, tool  # noqa: E402


@tool
def add() -> Tool:
    async def execute(a: int, b: int) -> str:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
        """
        return f"{a + b} is the sum. " + "It was added with care. " * 10

    return execute


def outputs() -> Iterator[ModelOutput]:
    for number, answer in enumerate(["The answer is 3.", "No."]):
        calls = ModelOutput.for_tool_call("mockllm/model", "add", {"a": 1, "b": 2})
        calls.usage = ModelUsage(input_tokens=100 + number, output_tokens=10, total_tokens=110 + number)
        answers = ModelOutput.from_content("mockllm/model", answer)
        answers.usage = ModelUsage(input_tokens=200 + number, output_tokens=20, total_tokens=220 + number)
        yield from (calls, answers)


def write(target: Path) -> None:
    samples = [Sample(input="What is 1 + 2?", target="3"), Sample(input="What is 2 + 1?", target="3", metadata={"level": 1})]
    task = Task(name="sums", dataset=samples, solver=[use_tools(add()), generate()], scorer=includes())
    model = get_model("mockllm/model", custom_outputs=[*outputs()])
    with tempfile.TemporaryDirectory() as folder:
        written = eval(task, model=model, log_dir=folder, display="none", max_samples=1)[0].location
        shutil.copy(written, target / "zstandard.eval")
        convert_eval_logs_to_chunked(written, f"{folder}/chunked", chunk_size=3, attachments_chunk_bytes=300)
        shutil.copy(next(Path(folder, "chunked").iterdir()), target / "chunked.eval")
    packing._MAX_INPUT_PER_FRAME = 1_000  # of members above 200 MB, which have several frames
    write_eval_log(read_eval_log(str(target / "zstandard.eval")), str(target / "frames.eval"))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
