# What a build lacks is told all at once, before anything is compiled.
#
#   reprise_lacks_package(libtbb-dev)        packages of Debian's, and of its relatives
#   reprise_lacks("no torch was found ...")  anything else: one sentence with what to do
#   reprise_stop_if_lacking()                ends configuring, if there was any of either

function(reprise_lacks_package)
  set_property(GLOBAL APPEND PROPERTY REPRISE_LACKING_PACKAGES ${ARGV})
endfunction()

function(reprise_lacks sentence)
  set_property(GLOBAL APPEND_STRING PROPERTY REPRISE_LACKING "\n  - ${sentence}")
endfunction()

function(reprise_stop_if_lacking)
  get_property(packages GLOBAL PROPERTY REPRISE_LACKING_PACKAGES)
  get_property(told GLOBAL PROPERTY REPRISE_LACKING)
  if(packages)
    list(JOIN packages " " line)
    string(PREPEND told "\n  - packages of Debian's are missing; run as root: \
apt-get update && apt-get install -y ${line}")
  endif()
  if(told)
    message(FATAL_ERROR "reprise cannot be built here yet:${told}\n")
  endif()
endfunction()
