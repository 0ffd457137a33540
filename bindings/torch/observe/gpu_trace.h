// What a program does to CUDA's streams and events, as torch tells its tracer.

#ifndef REPRISE_BINDINGS_TORCH_OBSERVE_GPU_TRACE_H_
#define REPRISE_BINDINGS_TORCH_OBSERVE_GPU_TRACE_H_

namespace reprise::bindings {

// From now on the session of a stream is interrupted (Session::Interrupt) where
// the program records an event on the stream, lets it wait for one, or waits
// for it: what ran ahead must not be ordered against other streams as if the
// program had got there. Once a process, never undone; nothing is done while no
// runtime is active. An event that was recorded behind work which is taken back
// is recorded anew, behind what puts things right.
//
// Torch has one place for a tracer (c10::impl::GPUTrace), meant for its own
// sanitizer: what is told is passed on to whoever held it before, and, after
// PassGpuTraceOn(), to Python's callbacks.
void WatchGpuTrace();
void PassGpuTraceOn();

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_OBSERVE_GPU_TRACE_H_
