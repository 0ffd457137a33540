#include "kernels/compiled_code.h"

#include <cstring>
#include <utility>

namespace reprise::kernels {
namespace {

// Fields one after the other, each with its length before it.
class Writer {
 public:
  explicit Writer(std::vector<char>& bytes) : bytes_(bytes) {}

  void Add(uint64_t number) { Append(&number, sizeof number); }
  void Add(std::span<const char> field) {
    Add(uint64_t{field.size()});
    Append(field.data(), field.size());
  }

 private:
  void Append(const void* from, size_t size_bytes) {
    const size_t end = bytes_.size();
    bytes_.resize(end + size_bytes);
    if (size_bytes > 0) std::memcpy(bytes_.data() + end, from, size_bytes);
  }

  std::vector<char>& bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : rest_(bytes) {}

  bool Read(uint64_t& number) {
    if (rest_.size() < sizeof(number)) return false;
    std::memcpy(&number, rest_.data(), sizeof(number));
    rest_ = rest_.subspan(sizeof(number));
    return true;
  }
  template <typename Bytes>
  bool Read(Bytes& field) {
    uint64_t size = 0;
    if (!Read(size) || rest_.size() < size) return false;
    field.assign(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(size));
    rest_ = rest_.subspan(size);
    return true;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const char> rest_;
};

}  // namespace

size_t CompiledCode::size_bytes() const {
  size_t bytes =
      sizeof(*this) + architecture.size() + image.size() + log.size();
  for (const auto& [expression, name] : lowered_names) {
    bytes += 2 * sizeof(std::string) + expression.size() + name.size();
  }
  return bytes;
}

std::vector<char> CompiledCode::Serialize() const {
  std::vector<char> bytes;
  bytes.reserve(2 * size_bytes());
  Writer writer(bytes);
  writer.Add(static_cast<uint64_t>(format));
  writer.Add(architecture);
  writer.Add(image);
  writer.Add(log);
  writer.Add(uint64_t{lowered_names.size()});
  for (const auto& [expression, name] : lowered_names) {
    writer.Add(expression);
    writer.Add(name);
  }
  return bytes;
}

std::optional<CompiledCode> CompiledCode::Parse(std::span<const char> bytes) {
  Reader reader(bytes);
  CompiledCode code;
  uint64_t format = 0;
  uint64_t names = 0;
  if (!reader.Read(format) || format > uint64_t(CodeFormat::kPtx) ||
      !reader.Read(code.architecture) || !reader.Read(code.image) ||
      !reader.Read(code.log) || !reader.Read(names)) {
    return std::nullopt;
  }
  code.format = static_cast<CodeFormat>(format);
  for (uint64_t i = 0; i < names; ++i) {
    std::string expression;
    std::string name;
    if (!reader.Read(expression) || !reader.Read(name)) return std::nullopt;
    code.lowered_names.emplace(std::move(expression), std::move(name));
  }
  if (!reader.at_end()) return std::nullopt;
  return code;
}

}  // namespace reprise::kernels
