// What must be done, begun again where it fails.

#ifndef REPRISE_ENGINE_REPLAY_AGAIN_H_
#define REPRISE_ENGINE_REPLAY_AGAIN_H_

#include <string>

#include "engine/base/status.h"

namespace reprise::engine {

// `run` gives a base::Status and may be begun again at any point. Where its
// first try fails there are some more; the error is the first one's and says
// `when` it was, or what came of it if all of them fail (`in_vain`).
template <typename Run>
base::Status Again(Run run, const char* when, const char* in_vain) {
  constexpr int kTries = 3;
  base::Status done = run();
  if (done) return {};
  for (int tries = 1; tries < kTries; ++tries) {
    if (run()) {
      return base::Fail(done.error().code(), done.error().message() + " (" +
                                                 when + "; tried again)");
    }
  }
  return base::Fail(done.error().code(),
                    std::string(in_vain) + ": " + done.error().message());
}

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_REPLAY_AGAIN_H_
