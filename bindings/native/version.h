// Which release of Reprise a program is compiled with.

#ifndef REPRISE_BINDINGS_NATIVE_VERSION_H_
#define REPRISE_BINDINGS_NATIVE_VERSION_H_

// Until version 1 each minor version has an interface of its own.
#define REPRISE_VERSION_MAJOR 0
#define REPRISE_VERSION_MINOR 1
#define REPRISE_VERSION_PATCH 0
#define REPRISE_VERSION "0.1.0"

#endif  // REPRISE_BINDINGS_NATIVE_VERSION_H_
