package models

import "context"

// eachBatch calls each with batches of rows until one has fewer than size, each returns an error, or ctx ends.
// read returns the batch that comes after a row, and the first one for the zero row.
func eachBatch[T any](ctx context.Context, size int, each func([]T) error, read func(after T) ([]T, error)) error {
	for after := *new(T); ; {
		batch, err := read(after)
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := each(batch); err != nil || len(batch) < size {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		after = batch[len(batch)-1]
	}
}

// oneByOne calls each with the rows of a batch.
func oneByOne[T any](each func(T) error) func([]T) error {
	return func(batch []T) error {
		for _, row := range batch {
			if err := each(row); err != nil {
				return err
			}
		}
		return nil
	}
}
