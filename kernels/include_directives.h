// What a text of C++ may include.

#ifndef REPRISE_KERNELS_INCLUDE_DIRECTIVES_H_
#define REPRISE_KERNELS_INCLUDE_DIRECTIVES_H_

#include <string>
#include <string_view>
#include <vector>

namespace reprise::kernels {

// Thread-compatible value.
struct IncludeDirectives {
  struct Definition {
    std::string macro;
    std::string body;
    // The body alone does not tell: the macro takes arguments, or joins tokens.
    bool opaque = false;

    bool operator==(const Definition&) const = default;
  };

  // Written out in #include or #include_next, or asked for by __has_include or
  // a macro with a name like it.
  std::vector<std::string> names = {};
  // What stands in place of a name, for macros to make it one.
  std::vector<std::string> computed = {};
  std::vector<Definition> definitions = {};
  // False where the text does not tell: it is written in a way that is not
  // looked into (trigraphs, comments across lines within a directive), or it
  // depends on more than texts (__TIME__).
  bool complete = true;
};

// Heeds neither conditions nor comments: rather too much than too little. Pure
// function; about 1 ns a byte.
IncludeDirectives FindIncludeDirectives(std::string_view text);

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_INCLUDE_DIRECTIVES_H_
