#include "bindings/torch/program_place.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "bindings/torch/python_api.h"

namespace reprise::bindings {
namespace {

// What is used of the interpreter: all of its stable interface, but for the
// frames of other threads.
struct Python {
  using Object = void*;

  int (*initialized)() = OfPython<int()>("Py_IsInitialized");
  int (*finalizing)() = Finalizing();
  int (*ensure)() = OfPython<int()>("PyGILState_Ensure");
  void (*release)(int) = OfPython<void(int)>("PyGILState_Release");
  Object (*frame)() = OfPython<Object()>("PyEval_GetFrame");  // borrowed
  Object (*back)(Object) = OfPython<Object(Object)>("PyFrame_GetBack");
  Object (*code)(Object) = OfPython<Object(Object)>("PyFrame_GetCode");
  int (*line)(Object) = OfPython<int(Object)>("PyFrame_GetLineNumber");
  Object (*attribute)(Object, const char*) =
      OfPython<Object(Object, const char*)>("PyObject_GetAttrString");
  const char* (*text)(Object, ptrdiff_t*) =
      OfPython<const char*(Object, ptrdiff_t*)>("PyUnicode_AsUTF8AndSize");
  Object (*frames)() = OfPython<Object()>("_PyThread_CurrentFrames");
  int (*next)(Object, ptrdiff_t*, Object*, Object*) =
      OfPython<int(Object, ptrdiff_t*, Object*, Object*)>("PyDict_Next");
  void (*clear)() = OfPython<void()>("PyErr_Clear");
  void (*take)(Object) = OfPython<void(Object)>("Py_IncRef");
  void (*drop)(Object) = OfPython<void(Object)>("Py_DecRef");

  bool runs() const {
    return initialized != nullptr && finalizing != nullptr &&
           ensure != nullptr && release != nullptr && frame != nullptr &&
           back != nullptr && code != nullptr && line != nullptr &&
           attribute != nullptr && text != nullptr && clear != nullptr &&
           take != nullptr && drop != nullptr && initialized() != 0 &&
           finalizing() == 0;
  }

  static int (*Finalizing())() {
    const auto found = OfPython<int()>("Py_IsFinalizing");  // from 3.13 on
    return found != nullptr ? found : OfPython<int()>("_Py_IsFinalizing");
  }

  static const Python& Get() {
    static const Python python;
    return python;
  }
};

// One reference.
class Owned {
 public:
  explicit Owned(Python::Object object) : object_(object) {}
  ~Owned() {
    if (object_ != nullptr) Python::Get().drop(object_);
  }
  Owned(Owned&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  static Owned Of(Python::Object borrowed) {
    if (borrowed != nullptr) Python::Get().take(borrowed);
    return Owned(borrowed);
  }
  Python::Object get() const { return object_; }

 private:
  Python::Object object_;
};

struct Line {
  std::string file;
  int number = 0;

  std::string Text(std::string_view shown) const {
    return std::string(shown) + ":" + std::to_string(number);
  }
  std::string Text() const { return Text(file); }
};

std::optional<Line> LineOf(Python::Object frame) {
  const Python& python = Python::Get();
  const Owned code(python.code(frame));
  const Owned name(python.attribute(code.get(), "co_filename"));
  ptrdiff_t size = 0;
  const char* const text =
      name.get() == nullptr ? nullptr : python.text(name.get(), &size);
  if (text == nullptr) {
    python.clear();
    return std::nullopt;
  }
  return Line{std::string(text, static_cast<size_t>(size)), python.line(frame)};
}

constexpr std::string_view kInstalled[] = {"/site-packages/",
                                           "/dist-packages/"};

// Of an installed package's file, its path from there on; else empty.
std::string_view InPackages(std::string_view file) {
  for (const std::string_view folder : kInstalled) {
    const size_t at = file.rfind(folder);
    if (at != file.npos) return file.substr(at + folder.size());
  }
  return {};
}

// A line there tells nobody what the program does.
bool TellsNothing(std::string_view file) {
  const std::string_view package = InPackages(file);
  return file.starts_with('<') || package.starts_with("torch/") ||
         file.find("/reprise/_") != file.npos ||
         (package.empty() && file.find("/lib/python3") != file.npos);
}

std::string PlaceFrom(Owned frame) {
  std::optional<Line> inner;
  for (; frame.get() != nullptr;
       frame = Owned(Python::Get().back(frame.get()))) {
    std::optional<Line> line = LineOf(frame.get());
    if (!line || TellsNothing(line->file)) continue;
    if (InPackages(line->file).empty()) {
      return !inner ? line->Text()
                    : line->Text() + " (" +
                          inner->Text(InPackages(inner->file)) + ")";
    }
    if (!inner) inner = std::move(line);
  }
  return inner ? inner->Text() : "";
}

// Of whichever thread waits for autograd's engine.
std::string PlaceOfBackward() {
  const Python& python = Python::Get();
  if (python.frames == nullptr || python.next == nullptr) return "";
  const Owned frames(python.frames());
  if (frames.get() == nullptr) {
    python.clear();
    return "";
  }
  ptrdiff_t position = 0;
  Python::Object thread = nullptr;
  Python::Object frame = nullptr;
  while (python.next(frames.get(), &position, &thread, &frame) != 0) {
    const std::optional<Line> line = LineOf(frame);
    if (line && InPackages(line->file) == "torch/autograd/graph.py") {
      return PlaceFrom(Owned::Of(frame));
    }
  }
  return "";
}

}  // namespace

std::string ProgramPlace() {
  const Python& python = Python::Get();
  if (!python.runs()) return "";
  const int state = python.ensure();
  std::string place;
  {
    Owned frame = Owned::Of(python.frame());
    place = frame.get() == nullptr ? PlaceOfBackward()
                                   : PlaceFrom(std::move(frame));
  }
  python.release(state);
  return place;
}

}  // namespace reprise::bindings
