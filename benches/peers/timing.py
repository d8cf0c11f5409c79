"""Device time of calls in a replayed graph, and the bandwidth of a copy."""

import statistics

import torch


def milliseconds(call):
    """The device's time for `call`."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def replayed(call, sets, calls):
    """Microseconds of a call, of `calls` in a graph, which rotate over `sets`. Not for the default
    stream; autograd's backward pass runs in the stream of the forward one."""
    for values in sets[:3]:
        call(*values)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for i in range(calls):
            call(*sets[i % len(sets)])
    graph.replay()
    times = [milliseconds(graph.replay) for _ in range(9)]
    return statistics.median(times) * 1e3 / calls


def device_time(call, sets):
    """Microseconds of a call: the median of nine replays of as many calls as take 5 ms."""
    estimate = replayed(call, sets, 20)
    return replayed(call, sets, int(min(max(5000 / estimate, 20), 2000)))


def copy_bandwidth():
    """Bytes read and written by a copy of 1 GiB, in gigabytes a second."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    # Not in a graph, where the copy engine makes copies, which is slower than the processors.
    copies = lambda: [target.copy_(source) for _ in range(10)]
    time = statistics.median(milliseconds(copies) for _ in range(9)) / 10
    return 2 * source.numel() / time / 1e6
