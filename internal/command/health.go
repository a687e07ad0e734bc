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

// Health asks the instance that has these settings whether it is ready, or alive.
type Health struct {
	Live bool `help:"Ask /livez: does the process run? That is what a supervisor restarts for."`
}

// healthTimeout is longer than an instance takes to say that it is not ready.
const healthTimeout = 5 * time.Second

// Run asks the instance that has these settings. Its error says what is wrong.
func (h Health) Run() error {
	c, _ := config.Inspect(false) // what has become of other settings is no matter of the instance that runs
	if c.AdminAddr == "" {
		return errors.New("health: ADMIN_ADDR is empty, so the instance has no /readyz and no /livez")
	}
	path := "/readyz"
	if h.Live {
		path = "/livez"
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.AdminAddr) // an address of all is one of this machine then
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
	if response.StatusCode != http.StatusOK || string(body) != "ok\n" { // another program may have the address
		return fmt.Errorf("health: %s at ADMIN_ADDR %s: %d %q", path, c.AdminAddr, response.StatusCode, bytes.TrimSpace(body))
	}
	return nil
}
