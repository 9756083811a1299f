package main

import _ "github.com/bradfitz/gomemcache/memcache"

func main() {}
