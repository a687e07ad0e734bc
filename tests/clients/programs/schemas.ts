// The generated schemas by tool and library. Each reports whether a value fits it.
import * as v from "valibot";
import { vCreateEventPath, vListEventsQuery, vListEventsResponse, vNewEvent } from "../generated/hey-api/valibot.gen";
import { zCreateEventPath, zListEventsQuery, zListEventsResponse, zNewEvent } from "../generated/hey-api/zod.gen";
import { createEventPathParamsSchema, listEvents200Schema, listEventsQueryParamsSchema, newEventSchema } from "../generated/kubb";
import { CreateEventBody, CreateEventParams, ListEventsQueryParams, ListEventsResponse } from "../generated/orval/zod";

export interface Schemas {
  event(value: unknown): boolean;
  world(id: string): boolean;
  query(value: unknown): boolean;
}

const zod = (event: Zod, world: Zod, query: Zod): Schemas => ({
  event: (value) => event.safeParse(value).success,
  world: (id) => world.safeParse({ id }).success,
  query: (value) => query.safeParse(value).success,
});

interface Zod {
  safeParse(value: unknown): { success: boolean };
}

export const schemas: Record<string, Schemas> = {
  "hey-api zod": zod(zNewEvent, zCreateEventPath, zListEventsQuery),
  "orval zod": zod(CreateEventBody, CreateEventParams, ListEventsQueryParams),
  "kubb zod": zod(newEventSchema, createEventPathParamsSchema, listEventsQueryParamsSchema),
  "hey-api valibot": {
    event: (value) => v.safeParse(vNewEvent, value).success,
    world: (id) => v.safeParse(vCreateEventPath, { id }).success,
    query: (value) => v.safeParse(vListEventsQuery, value).success,
  },
};

/** The schemas of what listEvents returns. */
export const lists: Record<string, (value: unknown) => boolean> = {
  "hey-api zod": (value) => zListEventsResponse.safeParse(value).success,
  "orval zod": (value) => ListEventsResponse.safeParse(value).success,
  "kubb zod": (value) => listEvents200Schema.safeParse(value).success,
  "hey-api valibot": (value) => v.safeParse(vListEventsResponse, value).success,
};
