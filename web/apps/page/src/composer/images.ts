/** Pictures on their way into a prompt: uploaded at once, so that sending is instant. */

import type { AttachmentInput } from "@hames/client";
import { useCallback, useEffect, useRef, useState } from "react";
import { api } from "../api.js";
import { toast, toastFailure } from "../shell/toasts.js";

const TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const LARGEST = 10 * 1024 * 1024;

export type Picture = { key: number; name: string; preview: string; uploadId: string | null };

export type Pictures = {
  pictures: readonly Picture[];
  add: (files: Iterable<File>) => boolean;
  remove: (key: number) => void;
  /** What a submit carries. Empties the list. */
  take: () => AttachmentInput[];
  uploading: boolean;
};

let counter = 0;

export function usePictures(): Pictures {
  const [pictures, setPictures] = useState<readonly Picture[]>([]);
  const current = useRef(pictures);
  current.current = pictures;

  useEffect(() => () => current.current.forEach(({ preview }) => URL.revokeObjectURL(preview)), []);

  const remove = useCallback((key: number) => {
    setPictures((all) =>
      all.filter((picture) => {
        if (picture.key === key) URL.revokeObjectURL(picture.preview);
        return picture.key !== key;
      }),
    );
  }, []);

  const add = useCallback(
    (files: Iterable<File>): boolean => {
      const images = [...files].filter((file) => file.type.startsWith("image/"));
      for (const file of images) {
        if (!TYPES.has(file.type)) toast(`${file.name}: only PNG, JPEG, GIF and WebP pictures can be sent`);
        else if (file.size > LARGEST) toast(`${file.name} is larger than 10 MB`);
        else {
          const key = ++counter;
          setPictures((all) => [...all, { key, name: file.name, preview: URL.createObjectURL(file), uploadId: null }]);
          api.upload(file, file.name).then(
            ({ id }) =>
              setPictures((all) =>
                all.map((picture) => (picture.key === key ? { ...picture, uploadId: id } : picture)),
              ),
            (failure: unknown) => {
              toastFailure(failure);
              remove(key);
            },
          );
        }
      }
      return images.length > 0;
    },
    [remove],
  );

  const take = useCallback((): AttachmentInput[] => {
    const ready = current.current.flatMap(({ uploadId }) =>
      uploadId ? [{ type: "image" as const, id: uploadId }] : [],
    );
    current.current.forEach(({ preview }) => URL.revokeObjectURL(preview));
    setPictures([]);
    return ready;
  }, []);

  return { pictures, add, remove, take, uploading: pictures.some(({ uploadId }) => uploadId === null) };
}
