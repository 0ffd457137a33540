// What a runtime did with batches and when, for people who look at it.

#ifndef REPRISE_BINDINGS_NATIVE_TIMELINE_H_
#define REPRISE_BINDINGS_NATIVE_TIMELINE_H_

#include <memory>
#include <string>

#include "bindings/native/common.h"

namespace reprise {

namespace native {
class NotedTimeline;
}

// Made by Runtime::StartTimeline: from then on each submission of a batch is an
// event (a replay, launches one by one, or the takeover of a graph), and so is
// each build, graph that was refused and graph that made room. Times are those
// of the thread that submits or builds, not the device's. Of all, the last
// 65536 are kept, in 10 MiB. Costs half a microsecond a submission; without a
// timeline, a load. Keeps its runtime alive until Stop. Move-only,
// and empty once moved from; single-thread at a time.
class Timeline {
 public:
  REPRISE_EXPORT explicit Timeline(
      std::unique_ptr<native::NotedTimeline> noted);
  REPRISE_EXPORT Timeline(Timeline&&) noexcept;
  REPRISE_EXPORT Timeline& operator=(Timeline&&) noexcept;
  REPRISE_EXPORT ~Timeline();

  // What comes later is not noted; what came before can still be exported.
  REPRISE_EXPORT void Stop();

  // What was noted so far, as JSON text in Chrome's trace event format: a track
  // for each stream and each thread that builds. Its clock is that of
  // torch.profiler's traces.
  REPRISE_EXPORT std::string ChromeTrace() const;
  // Writes it for ui.perfetto.dev or chrome://tracing. kInvalidArgument where
  // the file cannot be written.
  REPRISE_EXPORT Status ExportChromeTrace(const std::string& path) const;

 private:
  std::unique_ptr<native::NotedTimeline> noted_;
};

}  // namespace reprise

#endif  // REPRISE_BINDINGS_NATIVE_TIMELINE_H_
