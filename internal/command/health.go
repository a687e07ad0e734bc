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

// healthTimeout is longer than an instance takes to say that it is not ready.
const healthTimeout = 5 * time.Second

func (h Health) Run() error {
	c, _ := config.Inspect(false) // other settings may be wrong by now: the running instance does not read them
	if c.AdminAddr == "" {
		return errors.New("health: ADMIN_ADDR is empty, so the instance has no /readyz and no /livez")
	}
	path := "/readyz"
	if h.Live {
		path = "/livez"
	}
	if err := askOK(c.AdminAddr, path); err != nil {
		return fmt.Errorf("health: ADMIN_ADDR %s: %w", c.AdminAddr, err)
	}
	return nil
}

// askOK returns an error unless the service at an address responds ok. Its Host is localhost, which ADMIN_HOSTS always has; 0.0.0.0 and
// [::] lead to this machine.
func askOK(address, path string) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	client := &http.Client{Transport: transport, Timeout: healthTimeout}
	response, err := client.Get("http://localhost" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 200))
	// Another program may listen there and respond 200.
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != "ok\n") {
		err = fmt.Errorf("%s: %d %q", path, response.StatusCode, bytes.TrimSpace(body))
	}
	return err
}
