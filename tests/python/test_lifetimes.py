"""References, freed tensors, and threads."""

import gc
import sys
import threading
import weakref

import numpy as np
import ragged_attention as ra
from expected import attention


def planned(layout):
    attend = ra.RaggedPrefillWrapper(2, 2, 32, device="cpu", q_data_type="fp32")
    attend.plan(layout)
    return attend


def test_runs_keep_no_reference(lib, random):
    attend = planned([0, 4])
    q, k, v = (lib.make(random.standard_normal((4, 2, 32)), "fp32") for _ in range(3))
    attend.run(q, k, v)
    gc.collect()
    before = [sys.getrefcount(x) for x in (q, k, v)]
    for _ in range(50):
        out, lse = attend.run(q, k, v, return_lse=True)
    del out, lse
    gc.collect()
    assert [sys.getrefcount(x) for x in (q, k, v)] == before


def test_outputs_and_refusals_are_freed(torch):
    attend = planned([0, 4])
    q = torch.randn(4, 2, 32)
    freed = []
    for _ in range(20):
        out = attend.run(q, q, q)
        freed.append(weakref.ref(out))
        try:
            attend.run(q[:2], q, q)
        except ValueError:
            pass
    del out
    gc.collect()
    assert all(reference() is None for reference in freed)


def test_torch_without_the_table_of_c_functions(torch, random):
    """torch before 2.10 has __dlpack__ alone."""

    class Older(torch.Tensor):
        __dlpack_c_exchange_api__ = None

    attend = planned([0, 4])
    q, k, v = (torch.randn(4, 2, 32).as_subclass(Older) for _ in range(3))
    want, _ = attention(q, k, v, [0, 4], [0, 4])
    np.testing.assert_allclose(attend.run(q, k, v).numpy(), want, atol=2e-5)
    parameter = q.detach().requires_grad_(True)
    with torch.no_grad():
        np.testing.assert_allclose(attend.run(parameter, k, v).numpy(), want, atol=2e-5)


def test_a_plan_outlives_its_offsets_and_a_result_its_tensors(random):
    layout = np.array([0, 3, 4], np.int32)
    attend = planned(layout)
    layout[:] = -1
    del layout
    arrays = [random.standard_normal((4, 2, 32)).astype(np.float32) for _ in range(3)]
    want, _ = attention(*arrays, [0, 3, 4], [0, 3, 4])
    out = attend.run(*arrays)
    del arrays, attend
    gc.collect()
    np.testing.assert_allclose(out, want, atol=2e-5)


def test_threads_with_wrappers_of_their_own_and_with_one_together(random):
    layout = [0, 40, 100]
    q, k, v = (random.standard_normal((100, 2, 32)).astype(np.float32) for _ in range(3))
    shared = planned(layout)
    want = shared.run(q, k, v)
    wrong = []

    def work(attend):
        for _ in range(30):
            if attend is not shared:
                attend.plan([0, 100])
                attend.plan(layout)
            if not np.array_equal(attend.run(q, k, v), want):
                wrong.append(attend)

    threads = [threading.Thread(target=work, args=(attend,))
               for attend in (shared, shared, planned(layout), planned(layout))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_run_leaves_the_interpreter_to_other_threads(random):
    """While one thread computes for long, another one's Python goes on."""
    attend = ra.RaggedPrefillWrapper(8, 8, 128, device="cpu", q_data_type="fp32", threads=1,
                                     backend="reference")
    attend.plan([0, 600])
    q = random.standard_normal((600, 8, 128)).astype(np.float32)
    out = np.empty_like(q)
    running, ticks = threading.Event(), 0
    done = threading.Event()

    def compute():
        running.set()
        attend.run(q, q, q, out)
        done.set()

    thread = threading.Thread(target=compute)
    thread.start()
    running.wait()
    while not done.is_set():
        ticks += 1
        done.wait(0.001)
    thread.join()
    assert ticks > 3
