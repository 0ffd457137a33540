#include "tests/sim/recorded_stream.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace reprise::sim {
namespace {

using nlohmann::json;

// What is no line of a stream, though it is JSON.
class Unlike : public std::runtime_error {
  using runtime_error::runtime_error;
};

uint32_t BytesOf(const std::string& dtype) {
  static const std::map<std::string_view, uint32_t> kBytes = {
      {"bool", 1},        {"uint8", 1},      {"int8", 1},
      {"qint8", 1},       {"quint8", 1},     {"float8_e4m3fn", 1},
      {"float8_e5m2", 1}, {"int16", 2},      {"float16", 2},
      {"bfloat16", 2},    {"int32", 4},      {"float32", 4},
      {"complex32", 4},   {"int64", 8},      {"float64", 8},
      {"complex64", 8},   {"complex128", 16}};
  const auto found = kBytes.find(dtype);
  if (found == kBytes.end()) throw Unlike("no dtype is '" + dtype + "'");
  return found->second;
}

template <typename Number>
std::optional<Number> Parse(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// A number that a kernel takes by value; none: it is another argument.
std::optional<engine::Scalar> ScalarOf(const std::string& name,
                                       const std::string& text) {
  static const std::set<std::string_view> kNumbers = {
      "other", "value", "alpha", "beta", "fill_value", "self", "scalar"};
  engine::Scalar scalar;
  if (const auto integer = Parse<int64_t>(text)) {
    if (!kNumbers.contains(name)) return std::nullopt;
    scalar.type = engine::NumberType::kInt64;
    scalar.bits = std::bit_cast<uint64_t>(*integer);
    return scalar;
  }
  const auto number = Parse<double>(text);
  if (!number.has_value()) return std::nullopt;
  scalar.type = engine::NumberType::kFloat64;
  scalar.bits = std::bit_cast<uint64_t>(*number);
  return scalar;
}

class Reader {
 public:
  // Throws Unlike, or what nlohmann::json throws, where it is no such line.
  void Read(const std::string& text) {
    const json line = json::parse(text);
    if (line.contains("format")) {
      if (line.at("format") != kFormat) throw Unlike("another format");
      stream_.program = line.at("program");
    } else if (line.contains("pass")) {
      stream_.passes = line.at("pass").get<size_t>() + 1;
    } else if (line.contains("read")) {
      AddRead(line);
    } else {
      AddOp(line);
    }
  }

  RecordedStream Take() { return std::move(stream_); }

 private:
  engine::OpId IdOf(const std::string& name) {
    const auto [known, is_new] = ids_.emplace(name, stream_.names.size());
    if (is_new) stream_.names.push_back(name);
    return known->second;
  }

  // None: it has no memory that can be named.
  std::optional<RecordedTensor> TensorOf(const json& value) {
    if (!value.at(0).is_number()) return std::nullopt;
    RecordedTensor tensor;
    const auto [known, is_new] =
        storages_.emplace(value.at(0).get<uint64_t>(), stream_.storages.size());
    if (is_new) stream_.storages.emplace_back();
    tensor.storage = known->second;
    tensor.offset = value.at(1);
    tensor.sizes = value.at(2).get<std::vector<int64_t>>();
    tensor.strides = value.at(3).get<std::vector<int64_t>>();
    if (tensor.sizes.size() != tensor.strides.size()) {
      throw Unlike("a tensor has more sizes than strides, or fewer");
    }
    tensor.element_bytes = BytesOf(value.at(4).get<std::string>());
    RecordedStorage& storage = stream_.storages[tensor.storage];
    storage.size_bytes = std::max(storage.size_bytes, ReachOf(tensor));
    storage.last_op = stream_.ops.size();
    return tensor;
  }

  // Bytes of a storage from its beginning to the tensor's last element.
  static size_t ReachOf(const RecordedTensor& tensor) {
    if (std::ranges::find(tensor.sizes, 0) != tensor.sizes.end()) return 0;
    int64_t last = tensor.offset;
    for (size_t i = 0; i < tensor.sizes.size(); ++i) {
      last += (tensor.sizes[i] - 1) * tensor.strides[i];
    }
    return static_cast<size_t>(last + 1) * tensor.element_bytes;
  }

  std::vector<RecordedTensor> TensorsOf(const json& values) {
    std::vector<RecordedTensor> tensors;
    for (const json& value : values) {
      if (auto tensor = TensorOf(value)) tensors.push_back(*std::move(tensor));
    }
    return tensors;
  }

  // Where those operands are among them that have memory.
  static std::vector<uint32_t> IndicesAmong(
      const std::vector<uint32_t>& operands, const json& in) {
    std::vector<uint32_t> indices;
    for (const uint32_t operand : operands) {
      if (operand >= in.size()) throw Unlike("no operand has a written index");
      if (!in.at(operand).at(0).is_number()) continue;
      indices.push_back(static_cast<uint32_t>(std::count_if(
          in.begin(), in.begin() + operand,
          [](const json& before) { return before.at(0).is_number(); })));
    }
    return indices;
  }

  RecordedOp Begin(const std::string& name, const json& operands) {
    RecordedOp op;
    op.op = IdOf(name);
    op.pass = stream_.passes == 0 ? 0 : stream_.passes - 1;
    op.operands = TensorsOf(operands);
    op.words = {op.op, op.operands.size()};
    for (const json& operand : operands) {
      const auto hash = std::hash<std::string>();
      op.words.push_back(hash(operand.at(4).get<std::string>()));
      op.words.push_back(hash(operand.at(2).dump()));
      op.words.push_back(hash(operand.at(3).dump()));
    }
    return op;
  }

  void AddRead(const json& line) {
    RecordedOp op = Begin(line.at("read"), line.at("of"));
    op.cut = "the program reads it";
    stream_.ops.push_back(std::move(op));
  }

  void AddOp(const json& line) {
    const std::string name = line.at("op");
    RecordedOp op = Begin(name, line.at("in"));
    if (line.contains("writes")) {
      op.written = IndicesAmong(line.at("writes").get<std::vector<uint32_t>>(),
                                line.at("in"));
    }
    const json rest = line.value("rest", json::object());
    for (const auto& [argument, value] : rest.items()) {
      const std::string text = value;
      op.words.push_back(std::hash<std::string>()(argument));
      if (auto scalar = ScalarOf(argument, text)) {
        scalar->word = static_cast<uint32_t>(op.words.size());
        op.words.push_back(scalar->bits);
        op.scalars.push_back(*scalar);
      } else {
        op.words.push_back(std::hash<std::string>()(text));
      }
    }
    op.results = TensorsOf(line.at("out"));
    const std::string reads = line.value("reads", "");
    if (reads == "shape") op.cut = "the shape of its result depends on data";
    if (reads == "value" || reads == "copy") op.cut = "the program reads it";
    op.draws = line.value("random", false);
    if (IsShown(name, op)) stream_.ops.push_back(std::move(op));
  }

  static bool IsShown(const std::string& name, const RecordedOp& op) {
    if (op.cut != nullptr || !op.written.empty()) return true;
    if (name.starts_with("aten::empty") ||
        name.starts_with("aten::new_empty") || name.starts_with("profiler::")) {
      return false;
    }
    return std::ranges::any_of(op.results, [&op](const RecordedTensor& result) {
      return std::ranges::none_of(op.operands, [&](const auto& operand) {
        return operand.storage == result.storage;
      });
    });
  }

  static constexpr int kFormat = 1;

  RecordedStream stream_;
  std::map<std::string, engine::OpId> ids_;
  std::map<uint64_t, size_t> storages_;
};

}  // namespace

base::Result<RecordedStream> ReadStream(std::istream& lines) {
  Reader reader;
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    try {
      reader.Read(line);
    } catch (const std::exception& error) {
      return base::Fail(base::Code::kInvalidArgument,
                        "line " + std::to_string(number) + ": " + error.what());
    }
  }
  return reader.Take();
}

}  // namespace reprise::sim
