// Members that torch keeps private, for the few that it offers in no other way.

#ifndef REPRISE_BINDINGS_TORCH_PRIVATE_MEMBER_H_
#define REPRISE_BINDINGS_TORCH_PRIVATE_MEMBER_H_

namespace reprise::bindings {

// In a struct `Tag` of its own, which names the member: `object.*Member(Tag())`
// is that member, once `template struct Reveal<Tag, &Class::member>;` says
// which it is. The language lets an explicit instantiation name what is
// private.
#define REPRISE_PRIVATE_MEMBER(Tag)                                           \
  _Pragma("GCC diagnostic push")                                              \
      _Pragma("GCC diagnostic ignored \"-Wnon-template-friend\"") friend auto \
          Member(Tag);                                                        \
  _Pragma("GCC diagnostic pop")

template <typename Tag, auto kMember>
struct Reveal {
  friend auto Member(Tag) { return kMember; }
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_PRIVATE_MEMBER_H_
