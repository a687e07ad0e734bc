// Package watch is how programs follow a list, each with its own call: PROGRAM BASE_URL WORLD TOKEN TOKEN, the tokens of two users.
package watch

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
)

// A User calls the service with the cookie of a session, in a jar.
type User struct {
	http.Client
	base *url.URL
}

// Token is the cookie of the jar.
func (u *User) Token() string {
	for _, cookie := range u.Jar.Cookies(u.base) {
		if cookie.Name == "token" {
			return cookie.Value
		}
	}
	return ""
}

// List is what a call says of a list.
type List struct {
	Status int
	ETag   string
	Events int
}

// A Client lists the events of a world and makes one. It sends etag unless that is empty, and waits for so many seconds.
type Client interface {
	List(ctx context.Context, world, etag string, wait int32) (List, error)
	Create(ctx context.Context, world string) error
}

// Main gets a list, asks again while nothing changes, then while somebody else changes it, and prints the statuses and how many events there are.
func Main(client func(base string, user *User) (Client, error)) {
	base, world := os.Args[1], os.Args[2]
	var clients [2]Client
	for i, token := range os.Args[3:] {
		address, err := url.Parse(base)
		check(err)
		user := &User{base: address}
		user.Jar, err = cookiejar.New(nil)
		check(err)
		user.Jar.SetCookies(address, []*http.Cookie{{Name: "token", Value: token}})
		clients[i], err = client(base, user)
		check(err)
	}
	ctx := context.Background()
	say := func(etag string, wait int32) string {
		list, err := clients[0].List(ctx, world, etag, wait)
		check(err)
		fmt.Println(list.Status, list.Events)
		return list.ETag
	}
	check(clients[0].Create(ctx, world))
	etag := say("", 1)
	say(etag, 1)
	go func() { check(clients[1].Create(ctx, world)) }()
	say(etag, 30)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
