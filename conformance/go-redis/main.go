// Works with a server through go-redis, with assertions.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	lock   sync.Mutex
	checks int
	ctx    = context.Background()
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

func same[T comparable](what string, wanted T) func(T, error) {
	return func(got T, err error) { check(err == nil && got == wanted, what, got, err) }
}

func stored(client *redis.Client) {
	_, err := client.Get(ctx, "go:none").Result()
	check(errors.Is(err, redis.Nil), "a miss", err)
	same("set", "OK")(client.Set(ctx, "go:a", "one", time.Hour).Result())
	same("get", "one")(client.Get(ctx, "go:a").Result())
	same("setnx", false)(client.SetNX(ctx, "go:a", "two", 0).Result())
	same("setxx", true)(client.SetXX(ctx, "go:a", "two", redis.KeepTTL).Result())
	left, err := client.TTL(ctx, "go:a").Result()
	check(err == nil && left > 59*time.Minute && left <= time.Hour, "ttl", left, err)
	same("getset", "two")(client.GetSet(ctx, "go:a", "three").Result())
	same("append", int64(6))(client.Append(ctx, "go:a", "!").Result())
	same("getrange", "ree!")(client.GetRange(ctx, "go:a", 2, -1).Result())
	same("del", int64(1))(client.Del(ctx, "go:a", "go:none").Result())
	same("mset", "OK")(client.MSet(ctx, "go:x", "1", "go:y", "2").Result())
	values, err := client.MGet(ctx, "go:x", "go:none", "go:y").Result()
	check(err == nil && values[0] == "1" && values[1] == nil && values[2] == "2", "mget", values)
	large := strings.Repeat("x\r\n", 300_000)
	same("set of a large value", "OK")(client.Set(ctx, "go:large", large, 0).Result())
	same("get of a large value", large)(client.Get(ctx, "go:large").Result())
	err = client.LPush(ctx, "go:list", 1).Err()
	check(err != nil && strings.Contains(err.Error(), "unknown command"), "lpush", err)
}

func counted(client *redis.Client) {
	var group sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 250; i++ {
				check(client.Incr(ctx, "go:n").Err() == nil, "incr")
			}
		}()
	}
	group.Wait()
	same("what was counted", "1000")(client.Get(ctx, "go:n").Result())
	same("incrbyfloat", 10.5)(client.IncrByFloat(ctx, "go:f", 10.5).Result())
}

func many(client *redis.Client) {
	replies, err := client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for i := 0; i < 1000; i++ {
			pipeline.Set(ctx, fmt.Sprint("go:many:", i), i, 0)
		}
		return nil
	})
	check(err == nil && len(replies) == 1000, "a pipeline", err)
	seen := map[string]bool{}
	keys := client.Scan(ctx, 0, "go:many:*", 100).Iterator()
	for keys.Next(ctx) {
		seen[keys.Val()] = true
	}
	check(keys.Err() == nil && len(seen) == 1000, "scan", len(seen), keys.Err())
}

func main() {
	for protocol := 2; protocol <= 3; protocol++ {
		client := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol})
		check(client.FlushAll(ctx).Err() == nil, "flushall")
		stored(client)
		counted(client)
		many(client)
		check(client.Close() == nil, "close")
	}
	fmt.Println(checks, "checks")
}
