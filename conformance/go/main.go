// Works with a server through gomemcache: every command of the client, with assertions.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

var (
	lock   sync.Mutex
	checks int
)

func check(ok bool, what string, values ...any) {
	lock.Lock()
	defer lock.Unlock()
	checks++
	if !ok {
		fmt.Println("wrong:", what, fmt.Sprintln(values...))
		os.Exit(1)
	}
}

func storage(client *memcache.Client) {
	item := &memcache.Item{Key: "go:a", Value: []byte("one"), Flags: 4294967295, Expiration: 100}
	check(client.Set(item) == nil, "set")
	got, err := client.Get("go:a")
	check(err == nil && string(got.Value) == "one" && got.Flags == 4294967295, "get", got, err)
	_, err = client.Get("go:none")
	check(errors.Is(err, memcache.ErrCacheMiss), "a miss", err)
	check(errors.Is(client.Add(item), memcache.ErrNotStored), "add of what exists")
	check(client.Add(&memcache.Item{Key: "go:b", Value: []byte("b")}) == nil, "add")
	none := &memcache.Item{Key: "go:none", Value: []byte("b")}
	check(errors.Is(client.Replace(none), memcache.ErrNotStored), "replace of nothing")
	check(errors.Is(client.Append(none), memcache.ErrNotStored), "append to nothing")
	check(client.Replace(&memcache.Item{Key: "go:b", Value: []byte("mid")}) == nil, "replace")
	check(client.Append(&memcache.Item{Key: "go:b", Value: []byte("-end")}) == nil, "append")
	check(client.Prepend(&memcache.Item{Key: "go:b", Value: []byte("first-")}) == nil, "prepend")
	got, err = client.Get("go:b")
	check(err == nil && string(got.Value) == "first-mid-end", "the joined value", got, err)
	check(client.Delete("go:b") == nil, "delete")
	check(errors.Is(client.Delete("go:b"), memcache.ErrCacheMiss), "delete of nothing")
}

func uniques(client *memcache.Client) {
	check(client.Set(&memcache.Item{Key: "go:cas", Value: []byte("1")}) == nil, "set")
	first, err := client.Get("go:cas")
	check(err == nil, "get", err)
	second, err := client.Get("go:cas")
	check(err == nil, "get", err)
	first.Value = []byte("2")
	check(client.CompareAndSwap(first) == nil, "the first swap")
	second.Value = []byte("3")
	err = client.CompareAndSwap(second)
	check(errors.Is(err, memcache.ErrCASConflict), "the second swap", err)
	check(client.Delete("go:cas") == nil, "delete")
	err = client.CompareAndSwap(second)
	check(errors.Is(err, memcache.ErrCacheMiss), "a swap of nothing", err)
}

func counting(client *memcache.Client) {
	check(client.Set(&memcache.Item{Key: "go:n", Value: []byte("10")}) == nil, "set")
	n, err := client.Increment("go:n", 5)
	check(err == nil && n == 15, "increment", n, err)
	n, err = client.Decrement("go:n", 7)
	check(err == nil && n == 8, "decrement", n, err)
	n, err = client.Decrement("go:n", 100)
	check(err == nil && n == 0, "decrement to zero", n, err)
	_, err = client.Increment("go:none", 1)
	check(errors.Is(err, memcache.ErrCacheMiss), "increment of nothing", err)
	check(client.Set(&memcache.Item{Key: "go:n", Value: []byte("x")}) == nil, "set")
	_, err = client.Increment("go:n", 1)
	check(err != nil && strings.Contains(err.Error(), "non-numeric"), "increment of a word", err)
}

func many(client *memcache.Client) {
	var keys []string
	for i := 0; i < 1000; i++ {
		key := fmt.Sprintf("go:many:%d", i)
		keys = append(keys, key)
		value := bytes.Repeat([]byte(key), 1+i%30)
		check(client.Set(&memcache.Item{Key: key, Value: value}) == nil, "set", key)
	}
	found, err := client.GetMulti(append(keys, "go:none"))
	check(err == nil && len(found) == 1000, "a multiget", len(found), err)
	for i, key := range keys {
		check(bytes.Equal(found[key].Value, bytes.Repeat([]byte(key), 1+i%30)), "a value", key)
	}
}

func sizes(client *memcache.Client) {
	for _, size := range []int{0, 1, 4096, 100_000, 1_000_000} {
		value := bytes.Repeat([]byte{0, 13, 10, 255}, size/4+1)[:size]
		check(client.Set(&memcache.Item{Key: "go:size", Value: value}) == nil, "set", size)
		got, err := client.Get("go:size")
		check(err == nil && bytes.Equal(got.Value, value), "get", size, err)
	}
	big := &memcache.Item{Key: "go:size", Value: make([]byte, 2<<20)}
	check(client.Set(big) != nil, "a value over the limit")
	_, err := client.Get("go:size")
	check(errors.Is(err, memcache.ErrCacheMiss), "the old value must be gone", err)
	key := strings.Repeat("k", 250)
	check(client.Set(&memcache.Item{Key: key, Value: []byte("x")}) == nil, "a long key")
}

func times(client *memcache.Client) {
	for _, key := range []string{"go:short", "go:touched", "go:taken"} {
		check(client.Set(&memcache.Item{Key: key, Value: []byte("x"), Expiration: 1}) == nil, "set")
	}
	check(client.Touch("go:touched", 100) == nil, "touch")
	got, err := client.GetAndTouch("go:taken", 100)
	check(err == nil && string(got.Value) == "x", "get and touch", err)
	check(errors.Is(client.Touch("go:none", 1), memcache.ErrCacheMiss), "touch of nothing")
	time.Sleep(2100 * time.Millisecond)
	_, err = client.Get("go:short")
	check(errors.Is(err, memcache.ErrCacheMiss), "an expired item", err)
	for _, key := range []string{"go:touched", "go:taken"} {
		_, err = client.Get(key)
		check(err == nil, "a touched item", key, err)
	}
}

func together(client *memcache.Client) {
	var group sync.WaitGroup
	check(client.Set(&memcache.Item{Key: "go:sum", Value: []byte("0")}) == nil, "set")
	for n := 0; n < 20; n++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; n < 100; n++ {
				_, err := client.Increment("go:sum", 1)
				check(err == nil, "increment", err)
			}
		}()
	}
	group.Wait()
	got, err := client.Get("go:sum")
	check(err == nil && string(got.Value) == "2000", "the sum of twenty", got, err)
}

func main() {
	client := memcache.New(os.Args[1])
	client.Timeout = 10 * time.Second
	client.MaxIdleConns = 20
	check(client.Ping() == nil, "ping")
	parts := []func(*memcache.Client){storage, uniques, counting, many, sizes, times, together}
	for _, part := range parts {
		part(client)
	}
	check(client.FlushAll() == nil, "flush_all")
	fmt.Println(checks, "checks")
}
