import { mount } from "svelte";
import { connect } from "worldevents-client";
import App from "./App.svelte";

connect({ baseUrl: "" });
mount(App, { target: document.getElementById("app") });
