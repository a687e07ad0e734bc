package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"worldevents/config"
)

// Health asks the instance with these settings whether it is ready, or with --live whether it runs.
type Health struct {
	Live bool `help:"Ask /livez: does the process run? That is what a supervisor restarts for."`
}

// healthTimeout bounds the question. An instance says that it is not ready in less.
const healthTimeout = 5 * time.Second

// Run asks /readyz or /livez at ADMIN_ADDR. Its error says what is wrong.
func (h Health) Run() error {
	c, _ := config.Inspect(false) // other settings may have become wrong since: the running instance does not read them
	if c.AdminAddr == "" {
		return errors.New("health: ADMIN_ADDR is empty, so the instance has no /readyz and no /livez")
	}
	path := "/readyz"
	if h.Live {
		path = "/livez"
	}
	// The request names localhost as its host, which ADMIN_HOSTS always has, whatever address it goes to.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.AdminAddr) // 0.0.0.0 and [::] lead to this machine
	}}
	ctx, cancel := context.WithTimeout(interruptible(), healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("health: %s at ADMIN_ADDR %s: %w", path, c.AdminAddr, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 200))
	if err != nil {
		return fmt.Errorf("health: %s at ADMIN_ADDR %s: %w", path, c.AdminAddr, err)
	}
	if response.StatusCode != http.StatusOK || string(body) != "ok\n" { // another program may listen there and respond 200
		return fmt.Errorf("health: %s at ADMIN_ADDR %s: %d %q", path, c.AdminAddr, response.StatusCode, bytes.TrimSpace(body))
	}
	return nil
}
