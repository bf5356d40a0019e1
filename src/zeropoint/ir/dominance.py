"""Uses of values that their definitions do not dominate, in time linear in the number of ops.

```mlir
%0 = stablehlo.add %0, %x   // operand #0 does not dominate this use
```
In a region with several blocks, a definition dominates the blocks that every path from the entry reaches through its
block. Ops in blocks that no path reaches may use anything. The regions of modules and of unregistered ops are graphs:
their ops may use each other's results in any order.

Source: MLIR, `verifyDominanceOfContainedRegions` and `DominanceInfo`. The dominator tree is computed as in Lengauer and
Tarjan, "A fast algorithm for finding dominators in a flowgraph", 1979, with simple linking.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.ir import Block, Operation, Region, SSAValue


def misplaced_uses(op: Operation, visible: set[SSAValue] | None = None) -> Iterator[tuple[Operation, int]]:
    """The ops in `op`, itself included, that use a value which does not dominate them, with the operand's number.

    `visible` has the values that `op` may use.
    """
    visible = set() if visible is None else visible
    for number, operand in enumerate(op.operands):
        if operand not in visible:
            yield op, number
    is_graph = isinstance(op, ModuleOp | UnregisteredOp)
    for region in op.regions:
        yield from _misplaced_in(region, visible, is_graph)


def _misplaced_in(region: Region, visible: set[SSAValue], is_graph: bool) -> Iterator[tuple[Operation, int]]:
    """Walk the blocks of a region down the dominator tree; the values of a block are visible in its subtree."""
    children = dominator_tree(region)
    left = [(block, False) for block in (region.first_block,) if block is not None]
    while left:
        block, is_done = left.pop()
        if is_done:
            visible.difference_update(_values(block))
            continue
        left.append((block, True))
        left += [(child, False) for child in reversed(children.get(block, ()))]
        visible.update(_values(block) if is_graph else block.args)
        for op in block.ops:
            yield from misplaced_uses(op, visible)
            visible.update(op.results)


def _values(block: Block) -> Iterator[SSAValue]:
    yield from block.args
    for op in block.ops:
        yield from op.results


def dominator_tree(region: Region) -> dict[Block, list[Block]]:
    """Maps each block to the blocks that it immediately dominates. Blocks that no path reaches are absent."""
    blocks, parents = _depth_first(region)
    count = len(blocks)
    number = {block: index for index, block in enumerate(blocks)}
    before: list[list[int]] = [[] for _ in blocks]
    for index, block in enumerate(blocks):
        for successor in _successors(block):
            before[number[successor]].append(index)
    semi, dominators, label = list(range(count)), [0] * count, list(range(count))
    ancestor: list[int] = [-1] * count
    waiting: list[list[int]] = [[] for _ in blocks]
    for index in range(count - 1, 0, -1):
        parent = parents[index]
        semi[index] = min(semi[_lowest(node, ancestor, label, semi)] for node in before[index])
        waiting[semi[index]].append(index)
        ancestor[index] = parent
        for node in waiting[parent]:
            lowest = _lowest(node, ancestor, label, semi)
            dominators[node] = lowest if semi[lowest] < semi[node] else parent
        waiting[parent].clear()
    found: dict[Block, list[Block]] = {}
    for index in range(1, count):
        if dominators[index] != semi[index]:
            dominators[index] = dominators[dominators[index]]
        found.setdefault(blocks[dominators[index]], []).append(blocks[index])
    return found


def _successors(block: Block) -> tuple[Block, ...]:
    last = block.last_op
    return () if last is None else tuple(last.successors)


def _depth_first(region: Region) -> tuple[list[Block], list[int]]:
    """The blocks that paths from the entry reach, depth first, and the number of each one's parent in this walk."""
    blocks: list[Block] = []
    parents: list[int] = []
    seen: set[Block] = set()
    left = [] if region.first_block is None else [(region.first_block, 0)]
    while left:
        block, parent = left.pop()
        if block in seen:
            continue
        seen.add(block)
        left += [(successor, len(blocks)) for successor in reversed(_successors(block))]
        blocks.append(block)
        parents.append(parent)
    return blocks, parents


def _lowest(node: int, ancestor: list[int], label: list[int], semi: list[int]) -> int:
    """The node with the lowest semidominator on the path to `node` in the linked forest; shortens that path."""
    if ancestor[node] < 0:
        return node
    path: list[int] = []
    above = node
    while ancestor[ancestor[above]] >= 0:
        path.append(above)
        above = ancestor[above]
    for below in reversed(path):
        upper = ancestor[below]
        if semi[label[upper]] < semi[label[below]]:
            label[below] = label[upper]
        ancestor[below] = ancestor[upper]
    return label[node]
