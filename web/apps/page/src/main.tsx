import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.js";
import { Boundary } from "./shell/boundary.js";
import { Blank } from "./thread/states.js";
import "./styles/index.css";

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Boundary
      instead={(again) => (
        <Blank icon="alert" title="This page has failed">
          <p>That is a mistake of ours. Your threads are not affected: they live on the server.</p>
          <button type="button" className="button primary" onClick={again}>
            Try again
          </button>
        </Blank>
      )}
    >
      <App />
    </Boundary>
  </StrictMode>,
);
