// A program's stream of ops, as `perf/programs.py --record` has written it.

#ifndef REPRISE_TESTS_SIM_RECORDED_STREAM_H_
#define REPRISE_TESTS_SIM_RECORDED_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/trace/op.h"
#include "engine/trace/scalar.h"

namespace reprise::sim {

// A tensor of the recording. Offset, sizes and strides are in elements.
struct RecordedTensor {
  size_t storage = 0;  // index into RecordedStream::storages
  int64_t offset = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  uint32_t element_bytes = 0;
};

struct RecordedOp {
  engine::OpId op = 0;  // index into RecordedStream::names
  size_t pass = 0;
  std::vector<uint64_t> words;
  std::vector<engine::Scalar> scalars;
  std::vector<RecordedTensor> operands;
  std::vector<uint32_t> written;  // indices of operands
  std::vector<RecordedTensor> results;
  // The program waits for it; null: it does not.
  const char* cut = nullptr;
  bool draws = false;
};

struct RecordedStorage {
  size_t size_bytes = 0;  // what its tensors reach
  size_t last_op = 0;     // the last op that names it
};

// Ops that give views of their operands alone, or memory without content, are
// left out: a binding does not show them.
struct RecordedStream {
  std::string program;
  size_t passes = 0;
  std::vector<std::string> names;
  std::vector<RecordedOp> ops;
  std::vector<RecordedStorage> storages;
};

// Reads the lines that perf/user_programs/stream.py describes.
// kInvalidArgument: a line is no such line, or has a dtype that is not known
// here; the message says which.
base::Result<RecordedStream> ReadStream(std::istream& lines);

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_RECORDED_STREAM_H_
