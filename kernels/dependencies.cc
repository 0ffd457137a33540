#include "kernels/dependencies.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "kernels/hash_bytes.h"

namespace reprise::kernels {
namespace {

namespace fs = std::filesystem;

// More than this is not read; the list is then incomplete.
constexpr size_t kMostFiles = 8192;

constexpr std::string_view kSpace = " \t\v\f\r";

bool IsSpace(char c) { return kSpace.find(c) != std::string_view::npos; }

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The text with lines that end in a backslash joined to the next one.
std::string JoinLines(std::string_view text) {
  std::string joined;
  joined.reserve(text.size());
  while (!text.empty()) {
    const size_t backslash = text.find('\\');
    joined.append(text.substr(0, backslash));
    if (backslash == std::string_view::npos) break;
    text.remove_prefix(backslash);
    const size_t end = std::min(text.find_first_not_of(kSpace, 1), text.size());
    if (end < text.size() && text[end] == '\n') {
      text.remove_prefix(end + 1);
    } else {
      joined += '\\';
      text.remove_prefix(1);
    }
  }
  return joined;
}

void SkipBlank(std::string_view& text) {
  while (true) {
    while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
    if (!text.starts_with("/*")) return;
    const size_t end = text.find("*/", 2);
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 2);
  }
}

// What follows the '#' of a directive; nothing if the line has none. The line
// may begin within a comment that ends before the '#'.
std::optional<std::string_view> DirectiveOf(std::string_view line) {
  const auto after =
      [&line](std::string_view mark) -> std::optional<std::string_view> {
    for (size_t at = line.find(mark); at != std::string_view::npos;
         at = line.find(mark, at + 1)) {
      std::string_view before = line.substr(0, at);
      while (!before.empty() && IsSpace(before.back())) before.remove_suffix(1);
      if (before.empty() || before.ends_with("*/")) {
        return line.substr(at + mark.size());
      }
    }
    return std::nullopt;
  };
  if (auto directive = after("#")) return directive;
  return after("%:");
}

std::optional<std::string_view> TakeName(std::string_view& text) {
  if (text.empty() || (text.front() != '"' && text.front() != '<')) {
    return std::nullopt;
  }
  const size_t end = text.find(text.front() == '<' ? '>' : '"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(1, end - 1);
  text.remove_prefix(end + 1);
  return name;
}

// Names an include, as __has_include or MY_HAS_INCLUDE do too.
bool MentionsInclude(std::string_view text) {
  return Contains(text, "nclude") || Contains(text, "NCLUDE");
}

void AddNamesOfLine(std::string_view line, IncludedNames& found) {
  const std::optional<std::string_view> directive = DirectiveOf(line);
  if (!directive) return;
  std::string_view rest = *directive;
  SkipBlank(rest);
  if (rest.starts_with("/*")) found.complete = false;  // goes on elsewhere
  if (!MentionsInclude(rest)) return;
  if (rest.starts_with("include")) {
    rest.remove_prefix(std::string_view("include").size());
    if (rest.starts_with("_next")) rest.remove_prefix(5);
    SkipBlank(rest);
    if (const auto name = TakeName(rest)) {
      found.names.emplace_back(*name);
    } else {
      found.complete = false;
    }
    return;
  }
  // Asks whether there is such a file, perhaps through a macro.
  for (size_t at; (at = rest.find_first_of("\"<")) != std::string_view::npos;) {
    rest.remove_prefix(at);
    if (const auto name = TakeName(rest)) {
      found.names.emplace_back(*name);
    } else {
      rest.remove_prefix(1);
    }
  }
}

bool ReadFile(const fs::path& path, std::string& text) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size_bytes = file.tellg();
  if (size_bytes < 0) return false;
  text.resize(static_cast<size_t>(size_bytes));
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return file.good();
}

// Reads files and searches them, each once.
class Search {
 public:
  explicit Search(const KernelSource& source) : source_(source) {
    for (const std::string& path : source.include_paths) {
      folders_.push_back(Absolute(path));
    }
  }

  Dependencies Run() {
    AddText(source_.source, FolderOf(source_.name));
    for (const auto& [name, text] : source_.headers) {
      AddText(text, FolderOf(name));
    }
    while (!queue_.empty() && dependencies_.complete) {
      const fs::path path = std::move(queue_.back());
      queue_.pop_back();
      AddFile(path);
    }
    std::sort(dependencies_.files.begin(), dependencies_.files.end());
    return std::move(dependencies_);
  }

 private:
  static fs::path Absolute(const fs::path& path) {
    std::error_code error;
    return fs::current_path(error) / path;
  }
  static fs::path FolderOf(const std::string& name) {
    return Absolute(fs::path(name).parent_path());
  }

  void AddText(std::string_view text, const fs::path& folder) {
    const IncludedNames found = FindIncludedNames(text);
    dependencies_.complete &= found.complete;
    for (const std::string& name : found.names) {
      // An absolute name takes the place of the folder.
      AddCandidate(folder / name);
      for (const fs::path& other : folders_) AddCandidate(other / name);
    }
  }

  void AddCandidate(const fs::path& path) {
    if (!seen_.insert(path.native()).second) return;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return;
    if (seen_files_++ == kMostFiles) dependencies_.complete = false;
    queue_.push_back(path);
  }

  void AddFile(const fs::path& path) {
    std::string text;
    if (!ReadFile(path, text)) {
      dependencies_.complete = false;
      return;
    }
    dependencies_.files.push_back({path.native(), HashBytes(text)});
    AddText(text, path.parent_path());
  }

  const KernelSource& source_;
  std::vector<fs::path> folders_;
  Dependencies dependencies_;
  std::set<std::string> seen_;
  size_t seen_files_ = 0;
  std::vector<fs::path> queue_;
};

}  // namespace

IncludedNames FindIncludedNames(std::string_view text) {
  IncludedNames found;
  for (const char* word : {"__DATE__", "__TIME__", "__TIMESTAMP__"}) {
    if (Contains(text, word)) found.complete = false;
  }
  // Trigraphs for '#' and for the backslash.
  if (Contains(text, "\?\?=") || Contains(text, "\?\?/")) {
    found.complete = false;
  }
  const std::string joined = JoinLines(text);
  if (!MentionsInclude(joined)) return found;
  std::string_view rest = joined;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    AddNamesOfLine(line, found);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return found;
}

Dependencies FindDependencies(const KernelSource& source) {
  return Search(source).Run();
}

}  // namespace reprise::kernels
