#!/usr/bin/env python3
"""No inner loop of the CPU kernel keeps a vector on the stack: `inner_loop_spills.py OBJECT...`.

Register tiles are sized to the register file; a compiler that spills one accumulator costs a tile a
tenth of its speed without any test failing. Looks at the disassembly of the tile functions, which
are never inlined, and in each at the loops that contain no other loop.
"""

import re
import subprocess
import sys

# Functions whose innermost loops hold nothing but arithmetic and its operands, by what they are
# called in the object; `N_...` is the target they are compiled for.
TILES = re.compile(r"N_(\w+)::(ScoreTile|OutputTile|TailTile)<")
# Targets whose vectors live in registers by nature; the portable baseline's do not.
CHECKED = {"AVX3", "AVX2", "SSE4", "NEON"}

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
TARGET = re.compile(r"^([0-9a-f]+)\s+<")
MULTIPLY = re.compile(r"^(v?fn?m(add|sub|la)|v?mulps|fmul)")
STACK = re.compile(r"\(%rsp|\[sp\b")
FRAME = re.compile(r"\(%rbp|\[x29")  # the stack too, in functions that keep a frame pointer
KEEPS_FRAME = re.compile(r"%rsp,%rbp|x29, sp")
VECTOR = re.compile(r"%[xyz]mm|\bq\d+\b|\bv\d+\.")


def functions(disassembly):
    """Yields (name, [(address, mnemonic, operands)])."""
    name, body = None, []
    for line in disassembly.splitlines():
        if found := FUNCTION.match(line):
            if name:
                yield name, body
            name, body = found[1], []
        elif name and (found := INSTRUCTION.match(line)):
            body.append((int(found[1], 16), found[2], found[3]))
    if name:
        yield name, body


def innermost_loops(body):
    """Instruction lists of the loops that contain no other loop."""
    at = {address: i for i, (address, _, _) in enumerate(body)}
    loops = []
    for i, (address, mnemonic, operands) in enumerate(body):
        found = TARGET.match(operands) if re.match(r"(j|b\.|cb|tb)", mnemonic) else None
        if found and int(found[1], 16) <= address and int(found[1], 16) in at:
            loops.append((at[int(found[1], 16)], i))
    for first, last in loops:
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in loops):
            yield body[first:last + 1]


def spills(disassembly):
    """(loops looked at, [complaint])."""
    looked, complaints = 0, []
    for name, body in functions(disassembly):
        tile = TILES.search(name)
        if not tile or tile[1] not in CHECKED:
            continue
        framed = any(KEEPS_FRAME.search(o) for _, _, o in body)
        for loop in innermost_loops(body):
            if not any(MULTIPLY.match(mnemonic) for _, mnemonic, _ in loop):
                continue
            looked += 1
            bad = [f"{m} {o}" for _, m, o in loop if VECTOR.search(o) and
                   (STACK.search(o) or (framed and FRAME.search(o)))]
            if bad:
                complaints.append(f"{name.split('(')[0]}: {len(bad)} in a loop of {len(loop)} "
                                  f"instructions, first: {bad[0]}")
    return looked, complaints


def self_test():
    clean = ("0000 <void N_AVX3::ScoreTile<3, 8, true>(float const*)>:\n"
             "   0:\tvmovups %zmm1,0x8(%rsp)\n   4:\tvfmadd231ps %zmm2,%zmm3,%zmm4\n"
             "   8:\tmov 0x8(%rsp),%rax\n   c:\tjne    4 <x>\n")
    spilled = clean.replace("mov 0x8(%rsp),%rax", "vmovups 0x8(%rsp),%zmm1")
    assert spills(clean) == (1, []), spills(clean)
    assert len(spills(spilled)[1]) == 1
    assert spills(spilled.replace("ScoreTile", "PackChunk"))[0] == 0
    print("self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if not sys.argv[1:]:
        sys.exit(__doc__)
    looked = 0
    complaints = []
    for path in sys.argv[1:]:
        text = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", path], text=True,
                              capture_output=True, check=True).stdout
        here, bad = spills(text)
        looked += here
        complaints += bad
    if looked == 0:
        sys.exit("no tile function in these objects: their names have changed")
    print(f"{looked} inner loops, {len(complaints)} with vectors on the stack")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
