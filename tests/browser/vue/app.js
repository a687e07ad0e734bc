import { VueQueryPlugin } from "@tanstack/vue-query";
import { createApp } from "vue";
import { connect } from "worldevents-client";
import App from "./App.vue";

connect({ baseUrl: "" });
createApp(App).use(VueQueryPlugin).mount("#app");
