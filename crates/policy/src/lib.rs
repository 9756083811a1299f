//! Who stays: replacement decisions as pure functions.
