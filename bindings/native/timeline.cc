#include "bindings/native/timeline.h"

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "bindings/native/noted_timeline.h"
#include "scheduler/chrome_trace.h"

namespace reprise {

Timeline::Timeline(std::unique_ptr<native::NotedTimeline> noted)
    : noted_(std::move(noted)) {}
Timeline::Timeline(Timeline&&) noexcept = default;
Timeline& Timeline::operator=(Timeline&&) noexcept = default;
Timeline::~Timeline() = default;

void Timeline::Stop() {
  if (noted_ != nullptr) noted_->Stop();
}

std::string Timeline::ChromeTrace() const {
  return scheduler::ChromeTraceJson(
      noted_ == nullptr ? scheduler::Timeline::Excerpt() : noted_->Read());
}

Status Timeline::ExportChromeTrace(const std::string& path) const {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << ChromeTrace();
  file.close();
  if (file) return {};
  return Fail(Code::kInvalidArgument,
              "cannot write the timeline to '" + path +
                  "': " + std::generic_category().message(errno));
}

}  // namespace reprise
