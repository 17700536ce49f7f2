"""Machine code of Triton kernels: registers, spills, instructions. It compiles without the GPU."""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Form(NamedTuple):
    """A kernel, the types of its pointers and its constants; other arguments are int32.

    The address or value of an `aligned` argument is a multiple of 16. A launch detects this by itself.
    """

    name: str
    kernel: Any
    pointers: Mapping[str, str]
    constants: Mapping[str, int | bool]
    warps: int
    aligned: frozenset[str] = frozenset()


class MachineCode(NamedTuple):
    """Numbers of one kernel's machine code. `spilled_bytes` per thread do not fit its registers; 0 is fast."""

    registers: int
    spilled_bytes: int
    instructions: int
    ballots: int
    shared_bytes: int


def machine_code(form: Form, architecture: int) -> MachineCode:
    """Compiles a kernel with the installed Triton. `architecture` is 90 for compute capability 9.0."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    arguments = form.kernel.arg_names
    constants = {name: value for name, value in form.constants.items() if name in arguments}
    types = {name: "constexpr" if name in constants else form.pointers.get(name, "i32") for name in arguments}
    hints = {(place,): [["tt.divisibility", 16]] for place, name in enumerate(arguments) if name in form.aligned}
    code = triton.compile(
        ASTSource(form.kernel, types, constants, hints),
        target=GPUTarget("cuda", architecture, 32),
        options={"num_warps": form.warps},
    )
    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(code.asm["cubin"])
        usage = subprocess.check_output([tools / "cuobjdump", "-res-usage", cubin], text=True)
        listing = subprocess.check_output([tools / "nvdisasm", "-c", cubin], text=True, stderr=subprocess.DEVNULL)
    counts = {name: int(number) for name, number in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    instructions = re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?(\w+)", listing, re.MULTILINE)
    return MachineCode(
        registers=counts["REG"],
        spilled_bytes=counts["STACK"] + counts["LOCAL"],
        instructions=len(instructions),
        ballots=instructions.count("VOTE"),
        shared_bytes=code.metadata.shared,
    )
