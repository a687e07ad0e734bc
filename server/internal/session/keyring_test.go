package session

import (
	"sync"
	"testing"
)

// A JWT is worth what the keys of the moment say, whatever has been verified before and whoever verifies meanwhile.
func TestSetSecrets(t *testing.T) {
	m, _ := newTestManager()
	token := signed(oldKey, `{"alg":"HS256"}`, `{"sub":"s","exp":2000000001}`)
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					m.Verify(token) // fills the cache at any moment
				}
			}
		})
	}
	for i := range 200 {
		keys := [][]byte{newKey, oldKey}[:1+i%2]
		m.SetSecrets(keys)
		for range 3 {
			if _, err := m.Verify(token); (len(keys) == 1) != (err == ErrInvalid) {
				t.Fatalf("round %d: %v", i, err)
			}
		}
	}
	close(stop)
	all.Wait()

	for _, first := range [][]byte{newKey, oldKey} {
		m.SetSecrets([][]byte{first})
		if issued := m.Issue(alice, NewRefreshToken()); issued.Token[:len(m.keyring.Load().keys[0].header)] != m.keyring.Load().keys[0].header {
			t.Errorf("%s is not signed with the first key", issued.Token)
		} else if _, err := m.Verify(issued.Token); err != nil {
			t.Error(err)
		}
	}
}
