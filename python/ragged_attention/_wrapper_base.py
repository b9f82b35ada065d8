"""What every wrapper answers: one plan, its static buffers, and runs of it."""

from __future__ import annotations

from typing import Any

from ragged_attention import _arguments, _ext, _output
from ragged_attention.pictures import Drawing


class RaggedPrefillBase:
    """Owns one plan: construct once, `plan(...)` once a step, `run(...)` once a layer.

    Two threads may use two wrappers at once; calls on one wrapper wait for each other. Runs and plans
    leave the interpreter to other threads meanwhile.
    """

    _kind: str
    _block_size: int = 0

    def __init__(
        self,
        num_qo_heads: Any,
        num_kv_heads: Any,
        head_dim: Any,
        max_num_segments: Any,
        max_total_tokens: Any,
        max_total_kv_tokens: Any,
        device: Any,
        accelerator_graph: Any,
        sm_scale: Any,
        q_data_type: Any,
        backend: Any,
        threads: Any,
        facts: Any,
        workspace_buffer: Any = None,
    ) -> None:
        check = _arguments
        self._rows = -1
        self._ext = _ext.Wrapper(
            kind=self._kind,
            num_qo_heads=check.integer("num_qo_heads", num_qo_heads),
            num_kv_heads=check.integer("num_kv_heads", num_kv_heads),
            head_dim=check.integer("head_dim", head_dim),
            max_num_segments=check.optional_count("max_num_segments", max_num_segments),
            max_total_tokens=check.optional_count("max_total_tokens", max_total_tokens),
            max_total_kv_tokens=check.optional_count("max_total_kv_tokens", max_total_kv_tokens),
            device=check.device("device", device),
            accelerator_graph=check.flag("accelerator_graph", accelerator_graph),
            sm_scale=check.optional_number("sm_scale", sm_scale),
            q_data_type=check.dtype("q_data_type", q_data_type),
            backend=check.backend("backend", backend),
            block_size=self._block_size,
            threads=check.integer("threads", threads),
            facts=None if facts is None else check.text("facts", facts),
            workspace_buffer=workspace_buffer,
        )

    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any = None,
        lse: Any = None,
        *,
        return_lse: bool = False,
        stream: Any = None,
    ) -> Any:
        """Attends, under the last plan.

        q: [>= tokens, num_qo_heads, head_dim]; k, v: [>= key tokens, num_kv_heads, head_dim]; of the
        dtype and on the device that the wrapper was made for. Any strides of tokens and heads are
        read in place. Rows past the plan are never read into a result.

        out: like q, written in place; its rows past the plan stay as they are. None: an output of
        q's own library is made, and its rows past the plan are 0.
        lse: [>= tokens, num_qo_heads] of fp32, natural logarithm, written in place. return_lse makes
        one, and returns (out, lse).
        stream: the CUDA stream to work on (a handle, or a stream of torch or CuPy); by default the
        current one of q's library.

        ValueError where a tensor does not fit the plan, naming both; NotPlannedError before a plan.
        Inference only: a tensor whose gradient autograd would record is refused.
        """
        finish = finish_lse = None
        if out is None:
            out, finish = _output.like(q, self._rows)
        if return_lse and lse is None:
            lse, finish_lse = _output.lse_like(q, self._rows)
        self._ext.run(q, k, v, out, lse, stream)
        if finish is not None:
            out = finish(out)
        if not return_lse:
            return out
        return out, lse if finish_lse is None else finish_lse(lse)

    def check(self, stream: Any = None) -> None:
        """Offsets on a GPU are checked there, and a run of a step whose offsets are wrong writes
        nothing. This waits for the stream and raises what was found, in the words of offsets on the
        host; so does the next plan or run that comes to know of it."""
        self._ext.check(stream)

    @property
    def planned(self) -> bool:
        """True after the first plan."""
        return self._ext.planned

    @property
    def num_segments(self) -> int:
        """Segments of the last plan, empty ones included."""
        return self._ext.num_segments

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory of the last plan, exactly; in capacity mode known from construction."""
        return self._ext.workspace_bytes

    def explain(self) -> str:
        """The last plan for people: backend, tiles, work, waste, and what each other backend
        lacked."""
        return self._ext.explain()

    def to_json(self, with_units: bool = False) -> str:
        """The last plan as JSON; `with_units` adds the work list."""
        return self._ext.to_json(with_units)

    def draw(self, segments: int = 8) -> Drawing:
        """The first `segments` segments of the last plan as a picture, which a notebook shows."""
        return Drawing(self._ext.draw(_arguments.integer("segments", segments)))
