package postgres

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// While the resolver does not respond or fails, known addresses are used, and only the first attempt waits for it. All attempts
// share one lookup.
func TestHostName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := hostName{timeout: 2 * time.Second}
		var result []string
		var err error
		isAway, lookups := false, 0
		lookUp := func(ctx context.Context, _ string) ([]string, error) {
			if lookups++; isAway {
				<-ctx.Done()
				return nil, &net.DNSError{Err: "timeout", IsTimeout: true}
			}
			if err != nil {
				return nil, err
			}
			return result, nil
		}
		expect := func(want string, took time.Duration) {
			t.Helper()
			begun := time.Now()
			addresses, err := n.resolve(t.Context(), lookUp, "host")
			if want == "" && (err == nil || addresses != nil) || want != "" && (err != nil || !slices.Equal(addresses, []string{want})) {
				t.Errorf("%q, %v, want %q", addresses, err, want)
			}
			if since := time.Since(begun); since != took {
				t.Errorf("took %v, want %v", since, took)
			}
		}
		isAway = true
		expect("", 2*time.Second)
		synctest.Wait()
		isAway, err = false, errors.New("server misbehaving")
		expect("", 0)
		result, err = []string{"192.0.2.1"}, nil
		expect("192.0.2.1", 0)
		result = []string{"192.0.2.2"}
		expect("192.0.2.2", 0)
		isAway = true
		before := lookups
		expect("192.0.2.2", maxLookup)
		for range 100 {
			expect("192.0.2.2", 0)
		}
		synctest.Wait()
		if lookups != before+1 {
			t.Errorf("%d lookups at once", lookups-before)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		isAway, result = false, []string{"192.0.2.3"}
		expect("192.0.2.2", 0) // nobody waits yet
		synctest.Wait()
		expect("192.0.2.3", 0)
		err = &net.DNSError{Err: "no such host", IsNotFound: true}
		expect("", 0)
	})
}
