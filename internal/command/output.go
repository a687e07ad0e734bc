package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"worldevents/internal/logs"
)

func printJSON(v any) error {
	text, err := encode(v)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	return err
}

// printArray prints what list calls print with as a JSON array, one element to a line, and never keeps all in memory. After an error the
// array has no end, so that no reader takes it for whole.
func printArray(list func(print func(any) error) error) error {
	out := bufio.NewWriter(os.Stdout)
	before, after := "[\n", "[]\n"
	err := list(func(v any) error {
		text, err := encode(v)
		if err == nil {
			out.WriteString(before)
			_, err = out.Write(text)
		}
		before, after = ",\n", "\n]\n"
		return err
	})
	if err != nil {
		return err
	}
	out.WriteString(after)
	return out.Flush()
}

// encode is json.Marshal without the escapes that only HTML needs.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// linesOf converts a list for printing. An empty one is [] and not null.
func linesOf[T, Line any](all []T, line func(T) Line) []Line {
	printed := make([]Line, 0, len(all))
	for _, one := range all {
		printed = append(printed, line(one))
	}
	return printed
}

// note writes a line for people on stderr.
func note(text string) { fmt.Fprintln(logs.Stderr, "worldevents:", text) }

const progressInterval = 5 * time.Second

// progress returns a function that writes a line on stderr, once in progressInterval.
func progress() func(line string) {
	told := time.Now()
	return func(line string) {
		if time.Since(told) >= progressInterval {
			told = time.Now()
			fmt.Fprintln(logs.Stderr, line)
		}
	}
}

// given is 1 for a flag that was given, for sums.
func given(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
