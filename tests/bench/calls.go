package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"
)

// startCalls has a process of its own make ordinary calls, whose times then hold nothing of what the watchers' process does, and
// returns what ends that and says how long they took.
func startCalls(addr string) (stop func() (took string, err error), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program, "-calls", addr)
	command.Stderr = os.Stderr
	var out bytes.Buffer
	command.Stdout = &out
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	return func() (string, error) {
		in.Close()
		err := command.Wait()
		return out.String(), err
	}, command.Start()
}

// makeCalls makes ordinary calls, 100 a second, until standard input ends: lists of a world that nobody waits for, and sessions.
func makeCalls(addr string) error {
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	c := newCrowd(2)
	calls := [][]byte{c.list(worldOf("tiny", 0)), c.get("/api/auth/session", "")}
	one, err := dial(addr)
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := 0; ; i++ {
		var res response
		if err := one.do(calls[i%len(calls)], &res, nil); err != nil {
			return err
		}
		if res.status != 200 {
			return fmt.Errorf("an ordinary call: status %d", res.status)
		}
		took = append(took, time.Since(one.begin))
		select {
		case <-ended:
			slices.Sort(took)
			fmt.Printf("half within %s, all within %s", round(took[len(took)/2]), round(took[len(took)-1]))
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}
