// Members that torch keeps private, for the few that it offers in no other way.

#ifndef REPRISE_BINDINGS_TORCH_BASE_PRIVATE_MEMBER_H_
#define REPRISE_BINDINGS_TORCH_BASE_PRIVATE_MEMBER_H_

namespace reprise::bindings {

// `object.*Member(Tag())` is a private member of the object, where
//
//   struct Tag { friend auto Member(Tag); };
//   template struct Reveal<Tag, &Class::member>;
//
// say which: an explicit instantiation may name what is private.
template <typename Tag, auto kMember>
struct Reveal {
  friend auto Member(Tag) { return kMember; }
};

}  // namespace reprise::bindings

#endif  // REPRISE_BINDINGS_TORCH_BASE_PRIVATE_MEMBER_H_
