#include "kernels/dependencies.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "kernels/include_directives.h"
#include "kernels/include_macros.h"

namespace reprise::kernels {
namespace {

namespace fs = std::filesystem;

// More are not read; the list is then incomplete.
constexpr size_t kMostFiles = 8192;

std::string Absolute(std::string_view path) {
  std::error_code error;
  return (fs::current_path(error) / path).native();
}

// With a slash at its end, or empty.
std::string_view FolderOf(std::string_view path) {
  return path.substr(0, path.rfind('/') + 1);
}

// `-Dname=body` in any of its forms.
std::vector<IncludeDirectives::Definition> DefinitionsOf(
    const std::vector<std::string>& options) {
  std::vector<IncludeDirectives::Definition> definitions;
  bool apart = false;  // the definition is an option of its own
  for (std::string_view option : options) {
    if (!std::exchange(apart, false)) {
      const std::string_view name =
          option.starts_with("-D") ? "-D" : "--define-macro";
      if (!option.starts_with(name)) continue;
      option.remove_prefix(name.size());
      option.remove_prefix(
          std::min(option.find_first_not_of("= "), option.size()));
      apart = option.empty();
      if (apart) continue;
    }
    const size_t equals = option.find('=');
    const std::string_view macro = option.substr(0, equals);
    const std::string_view body =
        equals == std::string_view::npos ? "1" : option.substr(equals + 1);
    const bool opaque = macro.find('(') != std::string_view::npos ||
                        body.find('#') != std::string_view::npos;
    definitions.push_back({std::string(macro.substr(0, macro.find('('))),
                           std::string(body), opaque});
  }
  return definitions;
}

// Goes from text to text, each once.
class Search {
 public:
  Search(const KernelSource& source, IncludedFiles& files)
      : files_(files), options_(DefinitionsOf(source.options)) {
    for (const std::string& path : source.include_paths) {
      folders_.push_back(Absolute(path) + "/");
    }
    AddText(source.source, source.name);
    for (const auto& [name, text] : source.headers) AddText(text, name);
  }

  Dependencies Run() {
    while (result_.complete && reached_ < texts_.size()) {
      while (result_.complete && reached_ < texts_.size()) {
        Follow(texts_[reached_++]);
      }
      if (result_.complete) FollowMacros();
    }
    std::sort(result_.files.begin(), result_.files.end());
    return std::move(result_);
  }

 private:
  struct Text {
    std::string folder;
    std::shared_ptr<const IncludedFiles::File> file;
  };

  void AddText(std::string_view text, const std::string& name) {
    auto file = std::make_shared<IncludedFiles::File>();
    file->directives = FindIncludeDirectives(text);
    texts_.push_back({std::string(FolderOf(Absolute(name))), std::move(file)});
  }

  // By value: `texts_` grows.
  void Follow(Text text) {
    const IncludeDirectives& directives = text.file->directives;
    result_.complete &= text.file->readable && directives.complete;
    has_computed_ |= !directives.computed.empty();
    for (const std::string& name : directives.names) {
      AddName(name, text.folder);
    }
  }

  // Of all that was reached so far: a definition in any text may count in any
  // other.
  void FollowMacros() {
    if (!has_computed_) return;
    IncludeMacros macros;
    for (const auto& definition : options_) macros.Add(definition);
    for (const Text& text : texts_) {
      for (const auto& definition : text.file->directives.definitions) {
        macros.Add(definition);
      }
    }
    for (size_t i = 0; i < reached_; ++i) {
      const Text text = texts_[i];
      for (const std::string& computed : text.file->directives.computed) {
        const auto names = macros.Expand(computed);
        if (!names) {
          result_.complete = false;
          return;
        }
        for (const std::string& name : *names) AddName(name, text.folder);
      }
    }
  }

  void AddName(const std::string& name, const std::string& folder) {
    if (name.starts_with('/')) return AddPath(name);
    AddPath(folder + name);
    for (const std::string& other : folders_) AddPath(other + name);
  }

  void AddPath(std::string path) {
    const auto [seen, is_new] = seen_.insert(std::move(path));
    if (!is_new) return;
    std::shared_ptr<const IncludedFiles::File> file = files_.Find(*seen);
    if (file == nullptr) return;
    if (result_.files.size() == kMostFiles) {
      result_.complete = false;
      return;
    }
    result_.files.push_back({*seen, file->content});
    texts_.push_back({std::string(FolderOf(*seen)), std::move(file)});
  }

  IncludedFiles& files_;
  const std::vector<IncludeDirectives::Definition> options_;
  std::vector<std::string> folders_;
  std::vector<Text> texts_;
  size_t reached_ = 0;  // of `texts_`
  bool has_computed_ = false;
  std::unordered_set<std::string> seen_;
  Dependencies result_;
};

}  // namespace

Dependencies FindDependencies(const KernelSource& source,
                              IncludedFiles& files) {
  return Search(source, files).Run();
}

}  // namespace reprise::kernels
