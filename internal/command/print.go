package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
)

func printJSON(v any) error {
	text, err := encode(v)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	return err
}

// printArray prints all that list calls print with as one JSON array, an element to a line.
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
