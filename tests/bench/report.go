package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// report is what a run has found. The plots are drawn from its JSON.
type report struct {
	Machine string
	Rows    []row
	// Large are several clients at once on the largest worlds; Growth is one client on worlds of all sizes.
	Large, Growth []listing
	// Decade are lists of a world of ten years, in a grown database, whose RSVPs take so many bytes each.
	Decade       []listing
	BytesPerRSVP string
	// Waits are what was measured of those who wait for news of lists.
	Waits []waitResult `json:",omitempty"`
}

// waitResult is figures beside their goals.
type waitResult struct{ Work, Figure, Goal, Measured string }

// row compares the first contender with each of the others.
type row struct {
	Work, Goal string // the goal is about the ratio to the last one
	Sides      []sideResult
}

// sideResult is what a contender did: medians over the rounds.
type sideResult struct {
	Name string
	Rate float64 // a second
	// Server and PostgreSQL are processor time, in microseconds for each request.
	Server, PostgreSQL float64
	// Ratio is the first contender's rate by this one's, Low and High the lowest and the highest of a turn; and CPURatio the
	// processor time of its server and PostgreSQL together by that of this one.
	Ratio, Low, High, CPURatio float64
}

// listing is one list, asked for by some clients at once.
type listing struct {
	Server, Split      string
	RSVPs, Clients     int
	Bytes              int64
	Seconds, FirstByte float64
	PeakMB             float64 // growth of the process at its peak
}

func (r row) String() string {
	var b strings.Builder
	b.WriteString(r.Work)
	for i, s := range r.Sides {
		fmt.Fprintf(&b, "\n         %-26s %9s/s, CPU %5s + %5s µs", s.Name, number(s.Rate), number(s.Server), number(s.PostgreSQL))
		if i > 0 {
			fmt.Fprintf(&b, "; ratio %.2f (%.2f to %.2f), CPU %.2f", s.Ratio, s.Low, s.High, s.CPURatio)
		}
	}
	return b.String()
}

func (l listing) String() string {
	return fmt.Sprintf("%s, %s, %s: %d at once take %.3f s, first byte %.4f s, memory +%.1f MB",
		l.Server, l.Split, number(float64(l.RSVPs)), l.Clients, l.Seconds, l.FirstByte, l.PeakMB)
}

// String is the tables of README.md.
func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n", r.Machine)
	b.WriteString("| Work | By | Rate/s | CPU µs, server | CPU µs, PostgreSQL | Goal | Ratio of rates | Lowest to highest turn | Ratio of CPU |\n")
	b.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, row := range r.Rows {
		for i, s := range row.Sides {
			if i == 0 {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | | | | |\n", row.Work, s.Name, number(s.Rate), micros(s.Server), micros(s.PostgreSQL))
				continue
			}
			goal := ""
			if row.Goal != "" && i == len(row.Sides)-1 {
				goal = "≥ " + row.Goal
			}
			fmt.Fprintf(&b, "| | %s | %s | %s | %s | %s | **%.2f** | %.2f to %.2f | %.2f |\n",
				s.Name, number(s.Rate), micros(s.Server), micros(s.PostgreSQL), goal, s.Ratio, s.Low, s.High, s.CPURatio)
		}
	}
	for _, part := range []struct {
		of       string
		listings []listing
	}{{"Several clients at once", r.Large}, {"One client", r.Growth}, {"A world of ten years", r.Decade}} {
		if len(part.listings) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n| %s | Server | Size | Clients | MB | Time | First byte | Peak growth |\n|---|---|--:|--:|--:|--:|--:|--:|\n", part.of)
		for _, l := range part.listings {
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %.2f | %s | %s | %.1f MB |\n", l.Split, l.Server, number(float64(l.RSVPs)), l.Clients,
				float64(l.Bytes)/1e6, millis(l.Seconds), millis(l.FirstByte), l.PeakMB)
		}
	}
	if len(r.Waits) > 0 {
		b.WriteString("\n| Waiting for news | Figure | Goal | Measured |\n|---|---|--:|--:|\n")
	}
	for _, w := range r.Waits {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", w.Work, w.Figure, w.Goal, w.Measured)
	}
	if r.BytesPerRSVP != "" {
		fmt.Fprintf(&b, "\nAn RSVP of the grown database takes %s bytes, indexes included.\n", r.BytesPerRSVP)
	}
	return b.String()
}

func micros(v float64) string {
	if v == 0 {
		return ""
	}
	return number(v)
}

func millis(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1e3) }

// number writes thousands apart.
func number(v float64) string {
	text := fmt.Sprintf("%.0f", v)
	if v < 10 {
		text = fmt.Sprintf("%.1f", v)
	}
	for i := len(text) - 3; i > 0 && v >= 1000; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o666)
}

// machine describes what everything ran on.
func machine(s *env) (string, error) {
	postgres, err := s.ask("postgres", "SHOW server_version")
	cpu := runtime.GOARCH
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d cores (%s), %s, PostgreSQL %s with fsync=on and synchronous_commit=on, %d connections, pools of %d.",
		runtime.NumCPU(), cpu, runtime.Version(), postgres, connections, poolSize), err
}
