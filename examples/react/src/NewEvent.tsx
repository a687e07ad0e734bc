import type { ComponentProps, SubmitEvent } from 'react'
import { useCreateEvent } from 'worldevents-client/react'

export default function NewEvent({ world }: { world: string }) {
  const { mutate, error, isPending, isSuccess } = useCreateEvent(world)

  function submit(event: SubmitEvent<HTMLFormElement>) {
    event.preventDefault()
    const form = event.currentTarget
    const text = (name: string) => String(new FormData(form).get(name))
    const [name, description] = [text('name'), text('description')]
    const scheduledAt = new Date(text('at')).toISOString()
    const onSuccess = () => form.reset()
    mutate({ name, description, scheduledAt }, { onSuccess })
  }

  const fault = error?.code === 'validation_failed' ? '' : error?.message
  const { name, description, scheduledAt } = error?.fields ?? {}
  return (
    <details>
      <summary>New event</summary>
      <form onSubmit={submit}>
        <Field label="Name" name="name" error={name} required />
        <Field label="Description" name="description" error={description} />
        <Field
          label="When, in your time"
          name="at"
          type="datetime-local"
          error={scheduledAt}
          required
        />
        <button aria-busy={isPending}>Create</button>
        <p role="status">{fault ?? (isSuccess && 'Created')}</p>
      </form>
    </details>
  )
}

type FieldProps = ComponentProps<'input'> & { label: string; error?: string }

function Field({ label, error, ...input }: FieldProps) {
  return (
    <label>
      {label}
      <input aria-invalid={error ? true : undefined} {...input} />
      {error && <small role="alert">{error}</small>}
    </label>
  )
}
